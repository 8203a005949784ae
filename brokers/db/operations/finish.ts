import { ServiceError } from '@space/broker-kit';
import { isRace, type Session, SQLSTATE, StepError } from '@space/broker-kit/postgres';
import { audit } from '@space/broker-kit/principals';
import type { Context } from '../context.ts';
import { checkedName, type Workload } from '../core/names.ts';
import { isOpen, observe } from '../isolation/observe.ts';
import { END_SESSIONS, roleDropStatement, roleSilencingStatement } from '../isolation/statements.ts';
import { lockDatabase, markDropped, noteLeftoverRole } from '../registry/rows.ts';
import { withCut } from './cut.ts';

/**
 * Ends sessions, drops database and role, and leaves the tombstone. It may run twice, also concurrently: the name
 * belongs to one generation, so it never affects a newer database.
 */
export async function finishDrop(
  context: Context,
  entry: { traceId: string; operation: string; authority: string },
  workload: Workload,
  name: string,
): Promise<void> {
  await dropDatabase(context, name);
  context.failpoint('drop:after-database');
  await context.connections.transaction(async (session) => {
    const row = await lockDatabase(session, workload);
    if (row?.state !== 'dropping' || row.name !== name) return;
    const gone = await dropRole(session, name);
    if (!gone) {
      await noteLeftoverRole(session, name);
      context.log.warn(
        { trace_id: entry.traceId, ...workload, role: name },
        'the role stays, since grants of others name it',
      );
    }
    context.failpoint('drop:after-role');
    await markDropped(session, workload, name);
    await audit(session, { ...entry, ...workload, outcome: gone ? 'dropped' : 'dropped, role left' });
    context.failpoint('drop:before-commit');
  });
}

/**
 * Drops a role; false if it stays. Any tenant may grant something of its own to any role, and while that grant exists
 * the role cannot be dropped. Such a role owns nothing, opens nothing, and is used again only if a move brings its
 * own database back.
 */
export async function dropRole(session: Session, name: string): Promise<boolean> {
  try {
    await session.run('drop role', roleDropStatement(name));
    return true;
  } catch (error) {
    if (!(error instanceof StepError && error.code === SQLSTATE.dependentObjects)) throw error;
    await session.run('silence role', roleSilencingStatement(name));
    return false;
  }
}

const MAX_ATTEMPTS = 5;
/** Milliseconds after which the caller of a drop gets an answer; the drop itself continues. */
const ANSWER_MS = 75_000;

/**
 * Ends sessions and drops the database, repeatedly if necessary; does nothing if there is none. The duration depends on
 * the tenant's data, and a drop that was aborted would begin again. @throws ServiceError `unavailable` while it
 * continues
 */
export async function dropDatabase(context: Context, name: string, answerMs = ANSWER_MS): Promise<void> {
  const late = Promise.withResolvers<never>();
  const goesOn = new ServiceError('unavailable', 'the drop continues', { retryAfter: 10 });
  const timer = setTimeout(() => late.reject(goesOn), answerMs);
  try {
    await Promise.race([dropToTheEnd(context, name), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}

async function dropToTheEnd(context: Context, name: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const open = await context.connections.dropping(async (session) => {
        const [still] = await Promise.all([
          isOpen(session, name),
          // FORCE ends sessions only when nothing else blocks the drop, and ending access must not wait for that.
          session.run('end sessions', END_SESSIONS, [[name]]),
        ]);
        if (still) return true;
        context.failpoint('drop:after-sessions');
        await session.run('drop database', `DROP DATABASE IF EXISTS ${checkedName(name)} WITH (FORCE)`);
        return false;
      });
      if (!open) return;
      if (attempt >= MAX_ATTEMPTS)
        throw new ServiceError('unavailable', 'access was opened again during the drop', { retryAfter: 10 });
      // Whatever kept access open when the drop was requested may be gone now.
      await withCut(context, async (session, cut) => cut([{ name, ...(await observe(session, name)) }]));
    } catch (error) {
      // A superuser's session is in the database, which only the server's owner may end.
      if (error instanceof StepError && error.code === SQLSTATE.insufficientPrivilege)
        throw new ServiceError('unavailable', 'a session blocks the drop', { cause: error, retryAfter: 10 });
      if (attempt >= MAX_ATTEMPTS || !isRace(error)) throw error;
    }
  }
}
