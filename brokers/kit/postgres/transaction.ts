import type { Session } from './connections.ts';

/**
 * Sent right behind COMMIT, on the same connection, before anybody else can have it; must not throw. It runs as soon as
 * everybody sees the transaction, while the disk still writes it; the transaction ends when it is on the disk.
 */
export type Behind<T> = (session: Session, value: T) => Promise<void>;

const BEGIN_UNWAITED = 'BEGIN; SET LOCAL synchronous_commit = off';
/** A commit of its own that is waited for, and with it all of the log before it. It writes nothing but the log. */
const MAKE_DURABLE = "SELECT pg_logical_emit_message(true, 'space', '')";

/** BEGIN, the work, COMMIT, on a session that the caller holds. */
export async function inTransaction<T>(session: Session, act: (session: Session) => Promise<T>): Promise<T> {
  await session.run('begin', 'BEGIN');
  return untilCommitted(session, act);
}

/** The same without waiting for BEGIN, for work that uses no other session than the one that it is given. */
export function transact<T>(
  session: Session,
  act: (session: Session) => Promise<T>,
  behind?: Behind<T>,
): Promise<T> {
  const begun = session.run('begin', behind === undefined ? 'BEGIN' : BEGIN_UNWAITED);
  // Whoever waits for it hears of its failure.
  begun.catch(() => undefined);
  return untilCommitted(session, (inside) => act(behindBegin(inside, begun)), behind);
}

async function untilCommitted<T>(
  session: Session,
  act: (session: Session) => Promise<T>,
  behind?: Behind<T>,
): Promise<T> {
  const inside = lent(session);
  try {
    const value = await act(inside.session);
    inside.takeBack();
    await Promise.all([
      session.run('commit', 'COMMIT'),
      ...(behind === undefined ? [] : [behind(session, value), session.run('make durable', MAKE_DURABLE)]),
    ]);
    return value;
  } catch (error) {
    inside.takeBack();
    // A lost connection rolls back by itself; the first error is the one to tell.
    await session.run('rollback', 'ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/** A session until it is taken back: what came later would run outside of the transaction, or in somebody else's. */
export function lent(session: Session): { readonly session: Session; takeBack(): void } {
  let over = false;
  return {
    session: {
      run: async (step, text, values, effect) => {
        if (over) throw new Error(`${step}: its session has ended`);
        return session.run(step, text, values, effect);
      },
    },
    takeBack: () => {
      over = true;
    },
  };
}

/**
 * Only what is said to change nothing goes out before BEGIN was answered: had that failed on a living connection, a
 * change would have been made outside of any transaction.
 */
function behindBegin(session: Session, begun: Promise<unknown>): Session {
  return {
    run: async (step, text, values, effect) => {
      if (effect !== 'none') await begun;
      const [, rows] = await Promise.all([begun, session.run<never>(step, text, values, effect)]);
      return rows;
    },
  };
}
