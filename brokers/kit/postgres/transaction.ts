import type { SendStatement, Session } from './session.ts';

/**
 * Sends statements immediately after COMMIT on the same connection, before another caller gets it; must not throw. They
 * run as soon as the transaction is visible, while it is being written to disk. The transaction resolves when it is
 * durable.
 */
export type AfterCommit<T> = (session: Session, value: T) => Promise<void>;

const BEGIN_ASYNCHRONOUS = 'BEGIN; SET LOCAL synchronous_commit = off';
/** A separate commit, which waits until everything before it in the log is on disk. It only writes to the log. */
const MAKE_DURABLE = "SELECT pg_logical_emit_message(true, 'space', '')";

/** Runs BEGIN, the work and COMMIT on the caller's session. */
export async function inTransaction<T>(session: Session, act: (session: Session) => Promise<T>): Promise<T> {
  await session.run('begin', 'BEGIN');
  return untilCommitted(session, act);
}

/** The same without waiting for the answer to BEGIN, for work that uses only the session that it is given. */
export function transact<T>(
  session: Session,
  act: (session: Session) => Promise<T>,
  afterCommit?: AfterCommit<T>,
): Promise<T> {
  const begun = session.run('begin', afterCommit === undefined ? 'BEGIN' : BEGIN_ASYNCHRONOUS);
  // The statements that wait for BEGIN report its failure.
  begun.catch(() => undefined);
  return untilCommitted(session, (inside) => act(behindBegin(inside, begun)), afterCommit);
}

async function untilCommitted<T>(
  session: Session,
  act: (session: Session) => Promise<T>,
  afterCommit?: AfterCommit<T>,
): Promise<T> {
  const inside = lend(session);
  try {
    const value = await act(inside.session);
    inside.takeBack();
    await Promise.all([
      session.run('commit', 'COMMIT'),
      ...(afterCommit === undefined
        ? []
        : [afterCommit(session, value), session.run('make durable', MAKE_DURABLE)]),
    ]);
    return value;
  } catch (error) {
    inside.takeBack();
    // A lost connection rolls back by itself. The first error is the one to throw.
    await session.run('rollback', 'ROLLBACK').catch(() => undefined);
    throw error;
  }
}

/** Lends a session until `takeBack`: a later statement would run outside the transaction, or in another one. */
export function lend(session: Session): { readonly session: Session; takeBack(): void } {
  let over = false;
  const whileLent =
    (send: SendStatement): SendStatement =>
    async (step, text, values) => {
      if (over) throw new Error(`${step}: its session has ended`);
      return send(step, text, values);
    };
  return {
    session: { run: whileLent(session.run), read: whileLent(session.read) },
    takeBack: () => {
      over = true;
    },
  };
}

/**
 * Only reads are sent before BEGIN is answered: if BEGIN failed on a working connection, a change would run outside any
 * transaction.
 */
function behindBegin(session: Session, begun: Promise<unknown>): Session {
  return {
    run: async (step, text, values) => {
      await begun;
      return session.run(step, text, values);
    },
    read: async (step, text, values) => {
      const [, rows] = await Promise.all([begun, session.read<never>(step, text, values)]);
      return rows;
    },
  };
}
