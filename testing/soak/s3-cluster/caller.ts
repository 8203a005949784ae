import { randomBytes } from 'node:crypto';
import type { S3Client } from '@aws-sdk/client-s3';
import type { Random } from '../../random.ts';
import { ask, contentOf } from './ask.ts';
import { type Content, Ledger } from './ledger.ts';
import { abortAll, uploadInParts } from './parts.ts';
import { FAILED_KEYS, type Watch } from './watch.ts';

/** The endpoint of one broker, and an SDK client for it. */
export interface BrokerEndpoint {
  readonly base: string;
  readonly s3: S3Client;
}

export interface CallerOptions {
  readonly name: string;
  readonly token: string;
  readonly ways: readonly BrokerEndpoint[];
  readonly watch: Watch;
  readonly random: Random;
}

export type Counts = Record<'puts' | 'uploads' | 'copies' | 'deletes' | 'reads' | 'lists', number>;

const KIB = 1_024;
/** The most bytes that a caller stores, since the nodes' files are in memory. */
const MOST_BYTES = 24 * 1_024 * KIB;
const FOLDERS = 4;
const UPLOAD_PART = 5 * 1_024 * KIB;

/** An Assistant that writes, reads, copies, lists and deletes, one operation after another, each through another broker. */
export class Caller {
  readonly ledger = new Ledger();
  readonly counts: Counts = { puts: 0, uploads: 0, copies: 0, deletes: 0, reads: 0, lists: 0 };
  /** Answers that turned out untrue. */
  readonly lost: string[] = [];
  readonly #options: CallerOptions;
  #made = 0;
  #turn = 0;

  constructor(options: CallerOptions) {
    this.#options = options;
  }

  /** Runs until `ended` returns true. */
  async run(ended: () => boolean): Promise<void> {
    while (!ended()) await this.#act();
  }

  /** Reads and lists everything that was ever confirmed. */
  async verify(): Promise<void> {
    const left = [...this.ledger.keys(), ...this.ledger.gone()];
    const reader = async () => {
      for (let key = left.pop(); key !== undefined; key = left.pop()) await this.read(key);
    };
    await Promise.all([reader(), reader(), reader(), reader()]);
    await this.#list('');
  }

  /** Aborts multipart uploads whose creation was not answered. */
  abortUploads(): Promise<void> {
    return abortAll(this.#options.watch, this.#way().s3);
  }

  async read(key: string): Promise<void> {
    const { watch, token } = this.#options;
    const path = `/v1/objects/data/${key}`;
    const { value } = await watch.insist('reads', `get ${key}`, () =>
      ask(this.#way().base, token, { method: 'GET', path }),
    );
    this.counts.reads += 1;
    this.#note(this.ledger.judgeRead(key, value.status === 404 ? undefined : contentOf(value.bytes)));
  }

  async #act(): Promise<void> {
    const { random } = this.#options;
    const writable = this.ledger.writable();
    const any = () => writable[random(writable.length)];
    const die = random(100);
    const known = any();
    if (known === undefined || die < 40) return this.#put(this.#newKey(), this.#bytes());
    if (this.ledger.bytes > MOST_BYTES) return this.#deleteMany(writable.slice(0, 20));
    if (die < 48) return this.#put(known, this.#bytes());
    if (die < 53) return this.#upload();
    if (die < 61) return this.#copy(known, this.#newKey());
    if (die < 69) return this.#delete(known);
    if (die < 72) return this.#deleteMany([known, any() ?? known]);
    if (die < 78) return this.#list(this.#folder());
    return this.read(this.#anyKey());
  }

  async #put(key: string, bytes: Buffer): Promise<void> {
    const tries = await this.#write(`put ${key}`, {
      method: 'PUT',
      path: `/v1/objects/data/${key}`,
      body: bytes,
    });
    this.counts.puts += 1;
    await this.#stored(key, contentOf(bytes), tries);
  }

  async #copy(from: string, to: string): Promise<void> {
    const tries = await this.#write(`copy ${from} to ${to}`, {
      method: 'POST',
      path: '/v1/copies/data',
      json: { from, to },
    });
    this.counts.copies += 1;
    const content = this.ledger.at(from);
    if (content !== undefined) await this.#stored(to, content, tries);
  }

  async #upload(): Promise<void> {
    const key = this.#newKey();
    const parts = [randomBytes(UPLOAD_PART), this.#bytes()];
    const tries = await uploadInParts(this.#options.watch, () => this.#way().s3, key, parts);
    this.counts.uploads += 1;
    await this.#stored(key, contentOf(Buffer.concat(parts)), tries);
  }

  async #delete(key: string): Promise<void> {
    const tries = await this.#write(`delete ${key}`, { method: 'DELETE', path: `/v1/objects/data/${key}` });
    this.counts.deletes += 1;
    this.ledger.deleted(key, tries);
    await this.read(key);
  }

  async #deleteMany(keys: readonly string[]): Promise<void> {
    const all = [...new Set(keys)];
    const { watch, token } = this.#options;
    const { tries } = await watch.insist('writes', `delete ${all.length}`, async () => {
      const answer = await ask(this.#way().base, token, {
        method: 'POST',
        path: '/v1/deletions/data',
        json: { keys: all },
      });
      if (!('value' in answer)) return answer;
      const { failed } = JSON.parse(answer.value.bytes.toString('utf8'));
      // Each failed key has a code of its own; all of them are deleted again.
      return failed.length === 0
        ? answer
        : { refused: { status: 200, code: FAILED_KEYS, retryAfter: 1, late: true } };
    });
    this.counts.deletes += all.length;
    for (const key of all) this.ledger.deleted(key, tries);
  }

  async #list(prefix: string): Promise<void> {
    const { watch, token } = this.#options;
    const listed: { key: string; size: number }[] = [];
    let cursor: string | undefined;
    do {
      const query = new URLSearchParams({
        prefix,
        limit: '500',
        ...(cursor === undefined ? {} : { cursor }),
      });
      // All brokers have the same key, so each accepts the cursors of the others.
      const { value } = await watch.insist('reads', `list ${prefix}`, () =>
        ask(this.#way().base, token, { method: 'GET', path: `/v1/objects/data?${query}` }),
      );
      const page = JSON.parse(value.bytes.toString('utf8'));
      listed.push(...page.objects);
      cursor = page.cursor;
    } while (cursor !== undefined);
    this.counts.lists += 1;
    for (const wrong of this.ledger.judgeList(prefix, listed)) this.#note(wrong);
  }

  async #write(what: string, request: Parameters<typeof ask>[2]): Promise<number> {
    const { watch, token } = this.#options;
    const { tries } = await watch.insist('writes', what, () => ask(this.#way().base, token, request));
    return tries;
  }

  async #stored(key: string, content: Content, tries: number): Promise<void> {
    this.ledger.stored(key, content, tries);
    // Reads at once through another broker.
    if (this.#options.random(3) === 0) await this.read(key);
  }

  #note(wrong: string | undefined): void {
    if (wrong !== undefined) this.lost.push(`${this.#options.name}: ${wrong}`);
  }

  #way(): BrokerEndpoint {
    const { ways } = this.#options;
    this.#turn += 1;
    const way = ways[this.#turn % ways.length];
    if (way === undefined) throw new Error('no broker');
    return way;
  }

  #folder(): string {
    return `d${this.#options.random(FOLDERS)}/`;
  }

  #newKey(): string {
    this.#made += 1;
    return `${this.#folder()}o${this.#made}`;
  }

  /** Most objects are small. */
  #bytes(): Buffer {
    const { random } = this.#options;
    return randomBytes(random(10) === 0 ? KIB * (1 + random(1_024)) : 1 + random(48 * KIB));
  }

  #anyKey(): string {
    const { random } = this.#options;
    const keys = random(4) === 0 ? this.ledger.gone() : this.ledger.keys();
    return keys[random(keys.length)] ?? 'd0/never';
  }
}
