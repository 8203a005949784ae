import { ConcurrencyLimit, ServiceError } from '@space/broker-kit';
import type { Connections, Session } from '@space/broker-kit/postgres';

/** A change uses a connection while it waits for the bucket, so there are fewer slots than connections. */
const SLOTS = { active: 2, queued: 1_000 };

/** Runs work while nobody else, on any replica, changes the custody of this Capsule. */
export type Lock = <T>(capsule: string, work: (session: Session) => Promise<T>) => Promise<T>;

export function createLock(connections: Pick<Connections, 'session'>): Lock {
  const queues = new CapsuleQueues();
  const slots = new ConcurrencyLimit(SLOTS);
  return (capsule, work) =>
    queues.run(capsule, async () => {
      const turn = await slots.run(() => connections.session((session) => locked(session, capsule, work)));
      if (turn === undefined) throw new ServiceError('unavailable', 'too much at once', { retryAfter: 1 });
      return turn.value;
    });
}

async function locked<T>(
  session: Session,
  capsule: string,
  work: (session: Session) => Promise<T>,
): Promise<T> {
  await lockCustody(session, capsule);
  try {
    return await work(session);
  } finally {
    // A lost connection has lost its lock, too.
    await unlockCustody(session, capsule).catch(() => undefined);
  }
}

/** Serialises the changes of one Capsule in all replicas, including the write of the anchor. */
async function lockCustody(session: Session, capsule: string): Promise<void> {
  await session.run('lock custody', 'SELECT pg_advisory_lock(hashtextextended($1, 7305182))', [capsule]);
}

async function unlockCustody(session: Session, capsule: string): Promise<void> {
  await session.run('unlock custody', 'SELECT pg_advisory_unlock(hashtextextended($1, 7305182))', [capsule]);
}

/** Runs the work of one Capsule in order; other Capsules do not wait for it. */
class CapsuleQueues {
  readonly #last = new Map<string, Promise<unknown>>();

  async run<T>(capsule: string, work: () => Promise<T>): Promise<T> {
    const before = this.#last.get(capsule) ?? Promise.resolve();
    const mine = before.then(work, work);
    const settled = mine.catch(() => undefined);
    this.#last.set(capsule, settled);
    try {
      return await mine;
    } finally {
      if (this.#last.get(capsule) === settled) this.#last.delete(capsule);
    }
  }
}
