import * as z from 'zod';
import type { Caller, Kubernetes } from './client.ts';
import { type Columns, type Row, readTable, TABLE, type Table, tableOf } from './tables.ts';

/** The session that a list belongs to. */
interface Owner {
  readonly id: string;
}

const MOST_LISTS = 24;
/** Nobody looks at it any more. */
const IDLE_MS = 120_000;
const WATCH_SECONDS = 240;
/** A bookmark comes about once a minute. */
const SILENT_MS = 150_000;

const LIST = 'application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io';
const first = z.object({
  metadata: z.object({ remainingItemCount: z.number().optional() }).default({}),
  items: z.array(z.unknown()).nullish(),
});
const event = z.object({ type: z.string(), object: z.unknown() });

/** A list that is being read, for whoever of its session asks for it meanwhile. */
interface Read {
  readonly list: Promise<KeptList>;
  /** The least version that somebody was told of since it began. */
  expected: string;
}

/**
 * Lists of thousands, as one person may see them, kept up to date by a watch with that person's own rights for as long as
 * they look at pages. Each page asks the API server for one line all the same, so that whoever may not look any more is
 * refused at once, and a list that has another number of lines than the server's is read anew.
 */
export class KeptLists {
  readonly #kubernetes: Kubernetes;
  readonly #lists = new Map<string, KeptList>();
  readonly #reads = new Map<string, Read>();

  constructor(kubernetes: Kubernetes) {
    this.#kubernetes = kubernetes;
  }

  /** @throws KubernetesError where the person may not list, or the API server gives no answer */
  async rows({ id }: Owner, caller: Caller, path: string): Promise<readonly Row[]> {
    const key = keyOf(id, path);
    const there = this.#reads.get(key)?.list ?? this.#lists.get(key);
    if (there instanceof Promise || there?.isOver === false) {
      const [count, known] = await Promise.all([
        this.#count(caller, path),
        // Whoever began it is told of its failure; the others read for themselves.
        Promise.resolve(there).catch(() => undefined),
      ]);
      if (known?.isOver === false && known.count === count) return this.#keep(key, known).rows();
    }
    // What another page of the session has begun since then is as new as a read of one's own.
    return (await (this.#reads.get(key)?.list ?? this.#read(key, caller, path))).rows();
  }

  /** The number of its lines, by the person's own rights of now. */
  async #count(caller: Caller, path: string): Promise<number> {
    const { metadata, items } = first.parse(
      await this.#kubernetes.ask(caller, { path, query: { limit: '1' }, accept: LIST }),
    );
    return (items?.length ?? 0) + (metadata.remainingItemCount ?? 0);
  }

  #read(key: string, caller: Caller, path: string): Promise<KeptList> {
    const load = async () => {
      try {
        const table = await readTable((ask) => this.#kubernetes.ask(caller, ask), path);
        const list = new KeptList(this.#kubernetes, caller, path, table);
        list.expect(read.expected);
        // What was forgotten while it was read is for those alone who had asked before.
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

  /** Somebody who has changed something is shown what the API server has, whatever a watch has told. */
  forget({ id }: Owner): void {
    for (const [key, list] of this.#lists) if (key.startsWith(`${id} `)) this.#drop(key, list);
    for (const key of this.#reads.keys()) if (key.startsWith(`${id} `)) this.#reads.delete(key);
  }

  /** Somebody who was told of a change sees it: a list that is older is read anew. */
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
    // The list moves to the end of the eviction order.
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
  #ended = false;
  readonly #stop = new AbortController();
  readonly #rows: Map<string, Row>;
  #sorted: readonly Row[] | undefined;
  #columns: Columns;
  #idle: NodeJS.Timeout | undefined;
  #version: string;
  #expected = 0n;

  constructor(kubernetes: Kubernetes, caller: Caller, path: string, { rows, columns, version }: Table) {
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

  /** Whether it has to be read anew. */
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

  rows(): readonly Row[] {
    this.#sorted ??= [...this.#rows.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
    return this.#sorted;
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

  /** Until the watch ends; whatever its end is, the list is read anew when somebody asks for it. */
  async #follow(watch: Promise<AsyncIterable<unknown>>): Promise<void> {
    const silent = setTimeout(() => this.end(), SILENT_MS).unref();
    try {
      for await (const told of await watch) {
        silent.refresh();
        this.#take(event.parse(told));
      }
    } catch {
      // Also the end of the API server's memory of where it goes on, and a person who may list and not watch.
    } finally {
      clearTimeout(silent);
      this.end();
    }
  }

  /** @throws where the API server says that it cannot go on */
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
