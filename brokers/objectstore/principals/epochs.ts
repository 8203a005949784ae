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
  const { connections, s3, space, log, onRollback, bindAll, now = () => performance.now() } = options;
  const key = `custody/v1/epoch-${space}`;
  const startedAt = now();
  /** Only grows. */
  let highest = 0;
  let known: Known | undefined;
  /** Whoever comes while one is being written waits for the next, which all of them share. */
  let writing: Promise<void> = Promise.resolve();
  let next: Promise<void> | undefined;

  function learn(found: Known): Known {
    known = found;
    highest = Math.max(highest, found.epoch);
    return found;
  }

  async function look(): Promise<Known> {
    try {
      const { headers, body } = await s3.read(key, LIMIT, { signal: AbortSignal.timeout(TIMEOUT_MS) });
      const { epoch, bound, boundCapsules } = schema.parse(JSON.parse(body.toString('utf8')));
      return learn({
        epoch,
        bound: { workloads: bound, capsules: boundCapsules },
        etag: headers['etag'],
      });
    } catch (error) {
      if (error instanceof S3Error && (error.code === 'NoSuchKey' || error.status === 404))
        return learn({ epoch: 0, bound: NONE, etag: undefined });
      throw new ServiceError('custody_unavailable', 'the epoch cannot be asked', {
        cause: error,
        retryAfter: 2,
      });
    }
  }

  async function registryEpoch(): Promise<number> {
    const [row] = await connections.lookup.run<{ epoch: number }>(
      'read epoch',
      'SELECT number::float8 AS epoch FROM broker.epoch',
    );
    return row?.epoch ?? 0;
  }

  async function expect(epoch: number): Promise<void> {
    if (known === undefined) await look();
    if (await reaches(epoch)) return;
    onRollback();
    log.error({ highest }, 'the registry was set back');
    throw new ServiceError('custody_rollback', 'the registry was set back');
  }

  /** What was read before others went on is behind them, too: only what is read after that tells. */
  async function reaches(epoch: number): Promise<boolean> {
    const needed = highest;
    const reached = epoch >= needed ? epoch : await registryEpoch();
    highest = Math.max(highest, reached);
    return reached >= needed;
  }

  /** Writes over exactly what was read; whoever was faster has written as much or more, or all is tried again. */
  async function write(allBound: boolean): Promise<void> {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
      const epoch = await registryEpoch();
      const { epoch: there, bound: was, etag } = attempt === 1 && known !== undefined ? known : await look();
      await expect(epoch);
      if (there >= epoch && (isAll(was) || !allBound)) return;
      const bound = { workloads: was.workloads || allBound, capsules: was.capsules || allBound };
      // Only once it is true: a version that bound workloads alone reads this too, and knows no such field.
      const more = bound.capsules ? { boundCapsules: true } : {};
      const body = Buffer.from(JSON.stringify({ v: 1, epoch, bound: bound.workloads, ...more }));
      const condition = etag === undefined ? { 'if-none-match': '*' } : { 'if-match': etag };
      try {
        const answer = await s3.put(key, body, {
          headers: { 'content-type': 'application/json', ...condition },
          signal: AbortSignal.timeout(TIMEOUT_MS),
        });
        learn({ epoch, bound, etag: answer.etag });
        return;
      } catch (error) {
        known = undefined;
        const raced =
          error instanceof S3Error && (error.status === 412 || error.status === 409 || error.status === 404);
        if (!raced)
          throw new ServiceError('custody_unavailable', 'the epoch cannot be anchored', {
            cause: error,
            retryAfter: 2,
          });
      }
    }
    throw new ServiceError('custody_unavailable', 'the epoch is anchored by too many', { retryAfter: 1 });
  }

  function anchor(): Promise<void> {
    next ??= writing.then(() => {
      next = undefined;
      const run = write(false);
      writing = run.catch(() => undefined);
      return run;
    });
    return next;
  }

  return {
    anchor,
    expect,
    expectCurrent: async () => expect(await registryEpoch()),
    goBeyond: async (session) => {
      const { epoch } = await look();
      await session.run('go beyond', 'UPDATE broker.epoch SET number = greatest(number, $1) + 1', [
        Math.max(epoch, highest),
      ]);
    },
    round: {
      name: 'epoch',
      gapMs: 10_000,
      run: async () => {
        const { bound } = await look();
        await expect(await registryEpoch());
        if (!isAll(bound)) await bindAll(bound);
        await write(!isAll(bound) && now() - startedAt > REPLACED_MS);
      },
    },
  };
}
