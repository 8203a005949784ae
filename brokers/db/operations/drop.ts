import { refusal, ServiceError } from '@space/broker-kit';
import { decideDrop, decideFinalize } from '../core/decide.ts';
import { checkedName, type Workload } from '../core/names.ts';
import {
  audit,
  droppedWithCapsule,
  livingDatabases,
  lockCapsule,
  lockDatabase,
  markCapsuleDropping,
  markDropped,
  markDropping,
  moveCapsule,
  retirePrincipal,
} from '../registry/rows.ts';
import type { Session } from '../server/connections.ts';
import { isRace } from '../server/errors.ts';
import { observe } from '../walls/observe.ts';
import { closingStatements } from '../walls/statements.ts';
import type { Call, Context } from './context.ts';
import { about, authorisedCapsule } from './provision.ts';

/** Drops that run side by side share the server's checkpoints; more would only hold its connections. */
const PARALLEL_DROPS = 3;

export interface Dropped {
  readonly name: string;
  readonly alreadyAbsent: boolean;
}

/** Drops one workload's database and role. Access ends in the first transaction, whatever comes after it. */
export async function dropApp(context: Context, call: Call, capsule: string, app: string): Promise<Dropped> {
  const workload = { capsule, app };
  const entry = { ...about(call, 'capsule.app.drop', 'capsule'), capsule, app };
  const dropped = await context.connections.transaction(async (session) => {
    await authorisedCapsule(session, call, capsule, 'apps');
    const row = await lockDatabase(session, workload);
    const decision = decideDrop(row);
    if (row === undefined) throw new ServiceError('not_found', 'never created');
    if (decision === 'cut') {
      await markDropping(session, workload, row.name);
      await cutAccess(session, row.name);
    }
    await audit(session, { ...entry, outcome: decision });
    return { name: row.name, alreadyAbsent: decision === 'already absent' };
  });
  context.failpoint('drop:after-cut');
  if (!dropped.alreadyAbsent) await finishDrop(context, entry, workload, dropped.name);
  return dropped;
}

/** Drops all that is registered for the Capsule, then retires its principal. Returns what was dropped, sorted. */
export async function dropCapsule(context: Context, call: Call, capsule: string): Promise<string[]> {
  const entry = { ...about(call, 'capsule.drop', 'capsule'), capsule };
  const doomed = await context.connections.transaction(async (session) => {
    const { life, state } = await authorisedCapsule(session, call, capsule, 'drop');
    const living = await livingDatabases(session, capsule);
    if (state === 'active') {
      await markCapsuleDropping(session, capsule);
      for (const row of living) if (row.state === 'ready') await cutAccess(session, row.name);
      await moveCapsule(session, capsule, 'active', {
        state: 'dropping',
        life,
        principal: call.principal ?? null,
      });
    }
    await audit(session, { ...entry, outcome: state === 'active' ? 'cut' : 'resume' });
    return living;
  });
  context.failpoint('capsule-drop:after-cut');
  await eachOf(doomed, PARALLEL_DROPS, ({ app, name }) => finishDrop(context, entry, { capsule, app }, name));
  context.failpoint('capsule-drop:before-retire');
  return context.connections.transaction(async (session) => {
    const row = await lockCapsule(session, capsule, 'UPDATE');
    if (row === undefined || call.principal === undefined) throw refusal();
    // Another caller with the same principal retired it meanwhile; what was dropped is the same.
    if (row.state === 'dropping') {
      await retirePrincipal(session, capsule, call.principal);
      await moveCapsule(session, capsule, 'dropping', { state: 'retired', life: row.life, principal: null });
      await audit(session, { ...entry, outcome: 'retired' });
    }
    context.failpoint('capsule-drop:before-commit');
    return droppedWithCapsule(session, capsule, row.life);
  });
}

/** Releases the id of a Capsule whose databases are gone. True again and again. */
export async function finalizeCapsule(context: Context, call: Call, capsule: string): Promise<true> {
  return context.connections.transaction(async (session) => {
    const row = await lockCapsule(session, capsule, 'UPDATE');
    const decision = decideFinalize(row);
    if (row === undefined) throw new ServiceError('not_found', 'unknown Capsule');
    if (decision === 'conflict') throw new ServiceError('conflict', 'the Capsule is not dropped');
    if (decision === 'finalize') {
      await moveCapsule(session, capsule, 'retired', { state: 'finalized', life: row.life, principal: null });
    }
    await audit(session, { ...about(call, 'capsule.finalize', 'provisioner'), capsule, outcome: decision });
    return true as const;
  });
}

async function cutAccess(session: Session, name: string): Promise<void> {
  const { database, role } = await observe(session, name);
  const statements = closingStatements(name, database, role);
  if (statements.length > 0) await session.run('cut access', statements.join(';\n'));
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
      await context.connections.session(async (session) => {
        // FORCE ends sessions only once nothing else blocks the drop; a cut must not wait for that.
        await session.run(
          'end sessions',
          'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()',
          [name],
        );
        context.failpoint('drop:after-sessions');
        await session.run('drop database', `DROP DATABASE IF EXISTS ${checkedName(name)} WITH (FORCE)`);
      });
      return;
    } catch (error) {
      if (attempt >= 5 || !isRace(error)) throw error;
    }
  }
}

/** Runs every item even if one fails, so that what blocks one drop does not keep the others; then throws the first. */
async function eachOf<T>(
  items: readonly T[],
  parallel: number,
  act: (item: T) => Promise<void>,
): Promise<void> {
  const queue = [...items];
  const failures: unknown[] = [];
  const worker = async () => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) {
      await act(item).catch((error: unknown) => failures.push(error));
    }
  };
  await Promise.all(Array.from({ length: parallel }, worker));
  if (failures.length > 0) throw failures[0];
}
