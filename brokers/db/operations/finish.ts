import { ServiceError } from '@space/broker-kit';
import { isRace, type Session, SQLSTATE, StepError } from '@space/broker-kit/postgres';
import { audit } from '@space/broker-kit/principals';
import { checkedName, type Workload } from '../core/names.ts';
import { lockDatabase, markDropped } from '../registry/rows.ts';
import type { ObservedWorkload } from '../walls/observe.ts';
import { closingStatements, END_SESSIONS } from '../walls/statements.ts';
import type { Context } from './context.ts';

/** Nobody comes in any more; for the transaction that notes the intent to drop, or to close. */
export async function cutAccess(session: Session, observed: readonly ObservedWorkload[]): Promise<void> {
  const statements = observed.flatMap(closingStatements);
  if (statements.length > 0) await session.run('cut access', statements.join(';\n'));
}

/** Whoever was inside is put out: right behind the commit that lets nobody in, and before anything that can wait. */
export async function endSessions(session: Session, names: readonly string[]): Promise<void> {
  // The drop does it again, and tells what it cannot do.
  if (names.length > 0) await session.run('end sessions', END_SESSIONS, [names]).catch(() => undefined);
}

/**
 * Ends sessions, drops database and role, and leaves the tombstone. Safe to run twice, and side by side: the name
 * belongs to one generation, so it can never meet a newer database.
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
    await session.run('drop role', `DROP ROLE IF EXISTS ${checkedName(name)}`);
    context.failpoint('drop:after-role');
    await markDropped(session, workload, name);
    await audit(session, { ...entry, ...workload, outcome: 'dropped' });
    context.failpoint('drop:before-commit');
  });
}

async function dropDatabase(context: Context, name: string): Promise<void> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      await context.connections.dropping(async (session) => {
        // FORCE ends sessions only once nothing else blocks the drop; a cut must not wait for that.
        await session.run('end sessions', END_SESSIONS, [[name]]);
        context.failpoint('drop:after-sessions');
        await session.run('drop database', `DROP DATABASE IF EXISTS ${checkedName(name)} WITH (FORCE)`);
      });
      return;
    } catch (error) {
      // A superuser of the server is in there: only the server's owner may end that session.
      if (error instanceof StepError && error.code === SQLSTATE.insufficientPrivilege)
        throw new ServiceError('unavailable', 'a session blocks the drop', { cause: error, retryAfter: 10 });
      if (attempt >= 5 || !isRace(error)) throw error;
    }
  }
}
