import { type Logger, type Round, ServiceError } from '@space/broker-kit';
import type { Connections, Session } from '@space/broker-kit/postgres';
import { z } from 'zod';
import { S3Error } from '../upstream/errors.ts';
import type { S3Client } from '../upstream/types.ts';

/**
 * The registry's epoch grows with each principal that ends, and the Space's bucket remembers the highest that was answered. A
 * registry behind it was set back: it may believe in principals that ended, so nobody is let in by it until an
 * administrator has exchanged them all.
 */
export interface Epochs {
  /** Resolves when the bucket remembers the registry's epoch of now. What ends a principal is not answered before. */
  anchor(): Promise<void>;
  /** Throws `custody_rollback` for an epoch behind what is known; `custody_unavailable` where nothing can be known. */
  expect(epoch: number): Promise<void>;
  /** Throws when the registry as it is now was set back. */
  expectCurrent(): Promise<void>;
  /** Goes on beyond what either side knows, in the transaction that has made that right. */
  goBeyond(session: Session): Promise<void>;
  /** Learns what other replicas have anchored, and binds rows of a version that bound none. */
  readonly round: Round;
}

export interface EpochOptions {
  readonly connections: Pick<Connections, 'lookup'>;
  readonly s3: Pick<S3Client, 'read' | 'put'>;
  readonly space: string;
  readonly log: Logger;
  readonly onRollback: () => void;
  readonly bindAll: (bound: Bound) => Promise<void>;
  readonly now?: () => number;
}

/** The kinds whose rows are all bound by now; a row of such a kind that is not bound was not written by us. */
export interface Bound {
  readonly workloads: boolean;
  readonly capsules: boolean;
}

interface Known {
  readonly epoch: number;
  readonly bound: Bound;
  /** The entity tag of the bucket's object; undefined when there is none. */
  readonly etag: string | undefined;
}

const TIMEOUT_MS = 5_000;
const LIMIT = 4 * 1024;
/** Replicas of the version before may register a workload while they are replaced. */
const REPLACED_MS = 15 * 60_000;
const ATTEMPTS = 8;
const schema = z.strictObject({
  v: z.literal(1),
  epoch: z.number().int().min(1),
  bound: z.boolean(),
  boundCapsules: z.boolean().default(false),
});

const NONE: Bound = { workloads: false, capsules: false };
const isAll = ({ workloads, capsules }: Bound) => workloads && capsules;

export function createEpochs(options: EpochOptions): Epochs {
  return new BucketEpochs(options);
}

class BucketEpochs implements Epochs {
  readonly #options: EpochOptions;
  readonly #key: string;
  readonly #now: () => number;
  readonly #startedAt: number;
  /** The highest epoch that was ever seen; it only grows. */
  #highest = 0;
  #known: Known | undefined;
  /** Callers that arrive while one is being written share the next write. */
  #writing: Promise<void> = Promise.resolve();
  #next: Promise<void> | undefined;

  constructor(options: EpochOptions) {
    this.#options = options;
    this.#key = `custody/v1/epoch-${options.space}`;
    this.#now = options.now ?? (() => performance.now());
    this.#startedAt = this.#now();
  }

  anchor(): Promise<void> {
    this.#next ??= this.#writing.then(() => {
      this.#next = undefined;
      const run = this.#write(false);
      this.#writing = run.catch(() => undefined);
      return run;
    });
    return this.#next;
  }

  async expect(epoch: number): Promise<void> {
    if (this.#known === undefined) await this.#look();
    if (await this.#reaches(epoch)) return;
    this.#options.onRollback();
    this.#options.log.error({ highest: this.#highest }, 'the registry was set back');
    throw new ServiceError('custody_rollback', 'the registry was set back');
  }

  async expectCurrent(): Promise<void> {
    await this.expect(await this.#registryEpoch());
  }

  async goBeyond(session: Session): Promise<void> {
    const { epoch } = await this.#look();
    await session.run('go beyond', 'UPDATE broker.epoch SET number = greatest(number, $1) + 1', [
      Math.max(epoch, this.#highest),
    ]);
  }

  readonly round: Round = {
    name: 'epoch',
    gapMs: 10_000,
    run: async () => {
      const { bound } = await this.#look();
      await this.expectCurrent();
      if (!isAll(bound)) await this.#options.bindAll(bound);
      await this.#write(!isAll(bound) && this.#now() - this.#startedAt > REPLACED_MS);
    },
  };

  /** Reads what the bucket remembers. */
  async #look(): Promise<Known> {
    const signal = AbortSignal.timeout(TIMEOUT_MS);
    try {
      const { headers, body } = await this.#options.s3.read(this.#key, LIMIT, { signal });
      const { epoch, bound, boundCapsules } = schema.parse(JSON.parse(body.toString('utf8')));
      return this.#learn({
        epoch,
        bound: { workloads: bound, capsules: boundCapsules },
        etag: headers['etag'],
      });
    } catch (error) {
      if (error instanceof S3Error && (error.code === 'NoSuchKey' || error.status === 404))
        return this.#learn({ epoch: 0, bound: NONE, etag: undefined });
      throw new ServiceError('custody_unavailable', 'the epoch cannot be asked', {
        cause: error,
        retryAfter: 2,
      });
    }
  }

  #learn(found: Known): Known {
    this.#known = found;
    this.#highest = Math.max(this.#highest, found.epoch);
    return found;
  }

  async #registryEpoch(): Promise<number> {
    const [row] = await this.#options.connections.lookup.run<{ epoch: number }>(
      'read epoch',
      'SELECT number::float8 AS epoch FROM broker.epoch',
    );
    return row?.epoch ?? 0;
  }

  /** What was read before others went on is behind them, too: only what is read after that tells. */
  async #reaches(epoch: number): Promise<boolean> {
    const needed = this.#highest;
    const reached = epoch >= needed ? epoch : await this.#registryEpoch();
    this.#highest = Math.max(this.#highest, reached);
    return reached >= needed;
  }

  /** Writes over exactly what was read; whoever was faster has written as much or more, or all is tried again. */
  async #write(allBound: boolean): Promise<void> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const epoch = await this.#registryEpoch();
      const there = attempt === 1 && this.#known !== undefined ? this.#known : await this.#look();
      await this.expect(epoch);
      if (there.epoch >= epoch && (isAll(there.bound) || !allBound)) return;
      const bound = {
        workloads: there.bound.workloads || allBound,
        capsules: there.bound.capsules || allBound,
      };
      if (await this.#replace({ epoch, bound, etag: there.etag })) return;
    }
    throw new ServiceError('custody_unavailable', 'the epoch is anchored by too many', { retryAfter: 1 });
  }

  /** Puts the epoch over the object of this entity tag. False when somebody else was faster. */
  async #replace({ epoch, bound, etag: over }: Known): Promise<boolean> {
    // Only once it is true: a version that bound workloads alone reads this too, and knows no such field.
    const more = bound.capsules ? { boundCapsules: true } : {};
    const body = Buffer.from(JSON.stringify({ v: 1, epoch, bound: bound.workloads, ...more }));
    const condition = over === undefined ? { 'if-none-match': '*' } : { 'if-match': over };
    try {
      const { etag } = await this.#options.s3.put(this.#key, body, {
        headers: { 'content-type': 'application/json', ...condition },
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      this.#learn({ epoch, bound, etag });
      return true;
    } catch (cause) {
      this.#known = undefined;
      if (cause instanceof S3Error && [404, 409, 412].includes(cause.status)) return false;
      throw new ServiceError('custody_unavailable', 'the epoch cannot be anchored', { cause, retryAfter: 2 });
    }
  }
}
