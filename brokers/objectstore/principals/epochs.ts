import { type Logger, type Round, ServiceError } from '@space/broker-kit';
import type { Connections, Session } from '@space/broker-kit/postgres';
import { z } from 'zod';
import { S3Error } from '../upstream/errors.ts';
import type { S3Client } from '../upstream/types.ts';

/**
 * The registry's epoch increases with each principal that ends, and the Space's bucket stores the highest epoch of
 * which callers were told. A registry with a lower one was set back and may contain ended principals, so nobody is
 * admitted until an administrator has exchanged all of them.
 */
export interface Epochs {
  /** Resolves when the bucket has the registry's present epoch. Calls that end a principal are not answered before. */
  anchor(): Promise<void>;
  /** Throws `custody_rollback` for an epoch below the known one; `custody_unavailable` if none is known. */
  expect(epoch: number): Promise<void>;
  /** Throws if the present registry was set back. */
  expectCurrent(): Promise<void>;
  /** Sets an epoch above those of both sides, in the transaction of the exchange. */
  goBeyond(session: Session): Promise<void>;
  /** Reads what other replicas have anchored, and binds rows of versions that did not bind them. */
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

/** The kinds of which every row is bound; an unbound row of such a kind was not written by this broker. */
export interface Bound {
  readonly workloads: boolean;
  readonly capsules: boolean;
}

interface Known {
  readonly epoch: number;
  readonly bound: Bound;
  /** The entity tag of the bucket's object; undefined if there is none. */
  readonly etag: string | undefined;
}

const TIMEOUT_MS = 5_000;
const LIMIT = 4 * 1024;
/** Milliseconds in which replicas of the previous version may still register workloads during an upgrade. */
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
  /** The highest epoch that was seen; it only increases. */
  #highest = 0;
  #known: Known | undefined;
  /** Callers that arrive during a write share the next one. */
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
    this.#options.log.error({ highest: this.#highest }, 'the registry was set back to an older state');
    throw new ServiceError('custody_rollback', 'the registry was set back to an older state');
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

  /** Reads what the bucket has. */
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

  /** Other replicas may have continued since the last read, so only a new read can tell. */
  async #reaches(epoch: number): Promise<boolean> {
    const needed = this.#highest;
    const reached = epoch >= needed ? epoch : await this.#registryEpoch();
    this.#highest = Math.max(this.#highest, reached);
    return reached >= needed;
  }

  /** Overwrites exactly what was read. A faster replica has written as much or more; otherwise it is repeated. */
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

  /** Writes the epoch over the object with this entity tag. False if another replica was faster. */
  async #replace({ epoch, bound, etag: over }: Known): Promise<boolean> {
    // Written only once it is true, since a previous version, which binds workloads only, does not know the field.
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
