import * as z from 'zod';
import type { Caller, Kubernetes } from './client.ts';
import {
  type Columns,
  MOST_ROWS,
  type Row,
  type Rows,
  readTable,
  TABLE,
  type Table,
  tableOf,
} from './tables.ts';

/** The session that a list belongs to. */
interface Owner {
  readonly id: string;
}

const MOST_LISTS = 24;
/** Milliseconds after which an unused list is dropped. */
const IDLE_MS = 120_000;
const WATCH_SECONDS = 240;
/** Milliseconds without an event after which a watch counts as dead; a bookmark comes about once a minute. */
const SILENT_MS = 150_000;

const LIST = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io';
const first = z.object({
  metadata: z.object({ remainingItemCount: z.number().optional() }).default({}),
  items: z.array(z.unknown()).nullish(),
});
const event = z.object({ type: z.string(), object: z.unknown() });

/** A list that is being read, which other requests of the session share. */
interface Read {
  readonly list: Promise<KeptList>;
  /** The lowest version that has to be shown, since a person was notified of it after the read began. */
  expected: string;
}

/**
 * Lists of thousands of rows as one person may see them, kept current by a watch with that person's rights while they
 * use pages. Each page still asks the API server for one row, so that a person who has lost the right is refused at
 * once, and a list with another number of rows than the server's is read again.
 */
export class KeptLists {
  readonly #kubernetes: Kubernetes;
  readonly #most: number;
  readonly #lists = new Map<string, KeptList>();
  readonly #reads = new Map<string, Read>();

  constructor(kubernetes: Kubernetes, most = MOST_ROWS) {
    this.#kubernetes = kubernetes;
    this.#most = most;
  }

  /** @throws KubernetesError if the person may not list, or the API server does not answer */
  async rows({ id }: Owner, caller: Caller, path: string): Promise<Rows> {
    const key = keyOf(id, path);
    const there = this.#reads.get(key)?.list ?? this.#lists.get(key);
    if (there instanceof Promise || there?.isOver === false) {
      const [count, known] = await Promise.all([
        this.#count(caller, path),
        // The caller that began it gets its error; others read for themselves.
        Promise.resolve(there).catch(() => undefined),
      ]);
      if (known?.isOver === false && (known.isCut || known.count === count))
        return this.#keep(key, known).rows();
    }
    // A read that another page of the session has begun since is as new as one's own.
    return (await (this.#reads.get(key)?.list ?? this.#read(key, caller, path))).rows();
  }

  /** The number of rows, with the person's present rights. */
  async #count(caller: Caller, path: string): Promise<number> {
    const { metadata, items } = first.parse(
      await this.#kubernetes.ask(caller, { path, query: { limit: '1' }, accept: LIST }),
    );
    return (items?.length ?? 0) + (metadata.remainingItemCount ?? 0);
  }

  #read(key: string, caller: Caller, path: string): Promise<KeptList> {
    const load = async () => {
      try {
        const table = await readTable((ask) => this.#kubernetes.ask(caller, ask), path, this.#most);
        const list = new KeptList(this.#kubernetes, caller, path, table);
        list.expect(read.expected);
        // A list that was invalidated while it was read is only for those who had asked before.
        if (this.#reads.get(key) === read) this.#keep(key, list);
        else list.end();
        return list;
      } finally {
        if (this.#reads.get(key) === read) this.#reads.delete(key);
      }
    };
    const read: Read = { list: Promise.resolve().then(load), expected: '' };
    this.#reads.set(key, read);
    return read.list;
  }

  /**
   * Drops the lists of a session, so that a person who has changed something sees the API server's state, whatever a
   * watch has brought.
   */
  forget({ id }: Owner): void {
    for (const [key, list] of this.#lists) if (key.startsWith(`${id} `)) this.#drop(key, list);
    for (const key of this.#reads.keys()) if (key.startsWith(`${id} `)) this.#reads.delete(key);
  }

  /** Requires a version, so that a person who was told of a change sees it: an older list is read again. */
  expect({ id }: Owner, path: string, version: string): void {
    const key = keyOf(id, path);
    this.#lists.get(key)?.expect(version);
    const read = this.#reads.get(key);
    if (read !== undefined && numberOf(version) > numberOf(read.expected)) read.expected = version;
  }

  end(): void {
    for (const [key, list] of this.#lists) this.#drop(key, list);
    this.#reads.clear();
  }

  #keep(key: string, list: KeptList): KeptList {
    const before = this.#lists.get(key);
    if (before !== undefined && before !== list) before.end();
    // The list becomes the last in the order of eviction.
    this.#lists.delete(key);
    this.#lists.set(key, list);
    list.used(() => {
      if (this.#lists.get(key) === list) this.#drop(key, list);
    });
    for (const [oldest, one] of this.#lists) {
      if (this.#lists.size <= MOST_LISTS) break;
      this.#drop(oldest, one);
    }
    return list;
  }

  #drop(key: string, list: KeptList): void {
    this.#lists.delete(key);
    list.end();
  }
}

const keyOf = (id: string, path: string) => `${id} ${path}`;

class KeptList {
  /** Whether the server had more rows, so that their number says nothing. */
  readonly isCut: boolean;
  #ended = false;
  readonly #stop = new AbortController();
  readonly #rows: Map<string, Row>;
  #sorted: readonly Row[] | undefined;
  #columns: Columns;
  #idle: NodeJS.Timeout | undefined;
  #version: string;
  #expected = 0n;

  constructor(
    kubernetes: Kubernetes,
    caller: Caller,
    path: string,
    { rows, isCut, columns, version }: Table,
  ) {
    this.isCut = isCut;
    this.#rows = new Map(rows.map((row) => [row.name, row]));
    this.#columns = columns;
    this.#version = version;
    const query = {
      watch: 'true',
      allowWatchBookmarks: 'true',
      timeoutSeconds: String(WATCH_SECONDS),
      resourceVersion: version,
    };
    void this.#follow(kubernetes.follow(caller, { path, query, accept: TABLE }, this.#stop.signal));
  }

  /** Whether it must be read again. */
  get isOver(): boolean {
    return this.#ended || numberOf(this.#version) < this.#expected;
  }

  expect(version: string): void {
    const number = numberOf(version);
    if (number > this.#expected) this.#expected = number;
  }

  get count(): number {
    return this.#rows.size;
  }

  rows(): Rows {
    this.#sorted ??= [...this.#rows.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    return { rows: this.#sorted, isCut: this.isCut };
  }

  used(onIdle: () => void): void {
    clearTimeout(this.#idle);
    this.#idle = setTimeout(onIdle, IDLE_MS).unref();
  }

  end(): void {
    clearTimeout(this.#idle);
    this.#ended = true;
    this.#stop.abort();
  }

  /** Follows the watch until it ends for any reason; then the next request reads the list again. */
  async #follow(watch: Promise<AsyncIterable<unknown>>): Promise<void> {
    const silent = setTimeout(() => this.end(), SILENT_MS).unref();
    try {
      for await (const told of await watch) {
        silent.refresh();
        this.#take(event.parse(told));
      }
    } catch {
      // The reasons include an expired version, and a person who may list but not watch.
    } finally {
      clearTimeout(silent);
      this.end();
    }
  }

  /** @throws if the API server reports that the watch cannot continue */
  #take({ type, object }: z.infer<typeof event>): void {
    if (type === 'ERROR') throw new Error('the watch has ended');
    const { rows, columns, version } = tableOf(object, this.#columns);
    this.#columns = columns;
    if (type !== 'BOOKMARK') {
      for (const row of rows) {
        if (type === 'DELETED') this.#rows.delete(row.name);
        else this.#rows.set(row.name, row);
      }
      this.#sorted = undefined;
    }
    if (version !== '') this.#version = version;
  }
}

/** Versions of the API server's state are numbers that grow. */
const numberOf = (version: string): bigint => (/^\d+$/.test(version) ? BigInt(version) : 0n);
