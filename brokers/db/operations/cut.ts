import { ServiceError } from '@space/broker-kit';
import { type Session, SQLSTATE, StepError } from '@space/broker-kit/postgres';
import type { Context } from '../context.ts';
import type { ObservedWorkload } from '../isolation/observe.ts';
import { closingStatements, END_SESSIONS, seizingStatements, within } from '../isolation/statements.ts';

/** Ends access to the observed databases, in the transaction that records the reason. */
export type Cut = (observed: readonly ObservedWorkload[]) => Promise<void>;

/**
 * How an attempt deals with a tenant that changes its own role or database all the time, and so could win every race:
 * after a lost race the database is seized. If a session cannot be ended, it cannot be seized; then the sessions that can
 * be ended are ended first, which come back more slowly than this takes.
 */
type Means = 'none' | 'seize' | 'end sessions';
const MEANS: readonly Means[] = ['none', 'seize', 'end sessions'];

/**
 * Runs a transaction that records an intent and ends access. If something of the server's owner still blocks it (a
 * superuser's or a prepared transaction), the intent is recorded without ending access, and whoever continues the intent
 * tries again.
 */
export async function withCut<T>(
  context: Context,
  act: (session: Session, cut: Cut) => Promise<T>,
  afterCommit?: (session: Session, value: T) => Promise<void>,
): Promise<T> {
  const { connections } = context;
  let obstacle: StepError | undefined;
  for (const means of MEANS) {
    if (means === 'end sessions' && obstacle?.step !== 'seize database') break;
    try {
      return await connections.transaction(
        (session, attempt) =>
          act(session, (observed) =>
            cutAccess(context, session, observed, means === 'none' && attempt > 1 ? 'seize' : means),
          ),
        afterCommit,
      );
    } catch (error) {
      if (!isInTheWay(error)) throw error;
      obstacle = error;
    }
  }
  await connections.transaction((session) => act(session, async () => undefined));
  throw new ServiceError('unavailable', 'something on the server keeps access open', {
    cause: obstacle,
    retryAfter: 10,
  });
}

async function cutAccess(
  context: Context,
  session: Session,
  observed: readonly ObservedWorkload[],
  means: Means,
): Promise<void> {
  if (means === 'seize') await seize(context, session, observed);
  if (means === 'end sessions')
    await session.run('end sessions', END_SESSIONS, [observed.map(({ name }) => name)]);
  const statements = observed.flatMap(closingStatements);
  if (statements.length > 0)
    await session.run('cut access', within(means === 'none' ? 'cut' : 'insist', statements));
}

/**
 * Seizes databases for the caller's transaction: connected sessions are ended, and new ones wait until the transaction
 * ends, so that none of their roles can do anything.
 */
export async function seize(
  { blockers }: Context,
  session: Session,
  observed: readonly ObservedWorkload[],
): Promise<void> {
  for (const { name, database } of observed) {
    if (database !== 'valid') continue;
    await blockers.expel(name, () =>
      session.run('seize database', within('insist', seizingStatements(name))),
    );
  }
}

const OBSTACLES: ReadonlySet<string | undefined> = new Set([
  SQLSTATE.lockNotAvailable,
  SQLSTATE.objectInUse,
  SQLSTATE.internal,
]);

function isInTheWay(error: unknown): error is StepError {
  return (
    error instanceof StepError &&
    (error.step === 'cut access' || error.step === 'seize database') &&
    OBSTACLES.has(error.code)
  );
}

/** Ends the sessions immediately after the commit that prevents new ones, before anything that can wait. */
export async function endSessions(
  { log }: Context,
  session: Session,
  names: readonly string[],
): Promise<void> {
  if (names.length === 0) return;
  await session
    .run('end sessions', END_SESSIONS, [names])
    // The drop repeats it, and reports what it cannot end.
    .catch((error: unknown) => log.warn({ err: error }, 'sessions are not ended yet'));
}
