import { ServiceError } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import {
  about,
  audit,
  authorisedCapsule,
  type Call,
  finalizeCapsule as finalize,
  lockCapsule,
  moveCapsule,
  retireCapsule,
  type Undecided,
} from '@space/broker-kit/principals';
import type { Context } from '../context.ts';
import { decideDrop } from '../core/decide.ts';
import { observeRegistered } from '../isolation/observe.ts';
import {
  droppedWithCapsule,
  livingDatabases,
  lockDatabase,
  markCapsuleDropping,
  markDropping,
} from '../registry/rows.ts';
import { endSessions, withCut } from './cut.ts';
import { finishDrop } from './finish.ts';

/** Concurrent drops share the server's checkpoints; more of them would only occupy its connections. */
const PARALLEL_DROPS = 3;

export interface Dropped {
  readonly name: string;
  readonly alreadyAbsent: boolean;
}

/** Drops one workload's database and role. Access ends in the first transaction, whatever fails after it. */
export async function dropApp(context: Context, call: Call, capsule: string, app: string): Promise<Dropped> {
  const workload = { capsule, app };
  const entry = { ...about(call, 'capsule.app.drop', 'capsule'), capsule, app };
  const dropped = await withCut(
    context,
    async (session, cut) => {
      const [{ incarnation }, row, observed] = await Promise.all([
        authorisedCapsule(session, call, capsule, 'apps'),
        lockDatabase(session, workload),
        observeRegistered(session, capsule, app),
      ]);
      const decision = decideDrop(row, incarnation);
      if (row === undefined || decision === 'never created')
        throw new ServiceError('not_found', 'never created');
      await Promise.all([
        decision === 'cut' && markDropping(session, workload, row.name),
        decision === 'cut' && cut(observed),
        audit(session, { ...entry, outcome: decision }),
      ]);
      return { name: row.name, alreadyAbsent: decision === 'already absent' };
    },
    (session, { name, alreadyAbsent }) => endSessions(context, session, alreadyAbsent ? [] : [name]),
  );
  context.failpoint('drop:after-cut');
  if (!dropped.alreadyAbsent) await finishDrop(context, entry, workload, dropped.name);
  return dropped;
}

/**
 * Drops everything that is registered for the Capsule, then retires its principal. Returns the dropped names, sorted.
 */
export function dropCapsule(context: Context, call: Call, capsule: string): Promise<string[]> {
  const entry = { ...about(call, 'capsule.drop', 'capsule'), capsule };
  return dropAll(context, entry, (session) => authorisedCapsule(session, call, capsule, 'drop'));
}

/**
 * Drops a Capsule and releases its id, by an administrator's command: whoever can run it in the container is
 * authorised.
 */
export async function dropForAdministrator(
  context: Context,
  traceId: string,
  capsule: string,
): Promise<string[]> {
  const entry = { traceId, operation: 'administrator.drop', authority: 'administrator', capsule };
  const dropped = await dropAll(context, entry, async (session) => {
    const row = await lockCapsule(session, capsule, 'UPDATE');
    if (row === undefined) throw new ServiceError('not_found', 'no such Capsule');
    const { state, incarnation } = row;
    if (state !== 'active' && state !== 'dropping')
      throw new ServiceError('conflict', `the Capsule is ${state}`);
    return { state, incarnation };
  });
  await context.connections.transaction((session) => finalize(session, entry));
  return dropped;
}

/** Drops all databases. The first transaction ends access to all of them, and the last one retires the principal. */
async function dropAll(
  context: Context,
  entry: Undecided,
  authorise: (session: Session) => Promise<{ incarnation: number; state: 'active' | 'dropping' }>,
): Promise<string[]> {
  const { capsule } = entry;
  const { incarnation, living } = await withCut(
    context,
    async (session, cut) => {
      const [{ state, incarnation: found }, databases, observed] = await Promise.all([
        authorise(session),
        livingDatabases(session, capsule),
        observeRegistered(session, capsule),
      ]);
      const active = state === 'active';
      await Promise.all([
        active && markCapsuleDropping(session, capsule),
        active && cut(observed),
        active && moveCapsule(session, capsule, 'active', 'dropping'),
        audit(session, { ...entry, outcome: active ? 'cut' : 'resume' }),
      ]);
      return { incarnation: found, living: databases };
    },
    (session, begun) =>
      endSessions(
        context,
        session,
        begun.living.map(({ name }) => name),
      ),
  );
  context.failpoint('capsule-drop:after-cut');
  await eachOf(living, PARALLEL_DROPS, ({ app, name }) => finishDrop(context, entry, { capsule, app }, name));
  context.failpoint('capsule-drop:before-retire');
  return context.connections.transaction(async (session) => {
    await retireCapsule(session, entry, incarnation);
    context.failpoint('capsule-drop:before-commit');
    return droppedWithCapsule(session, capsule, incarnation);
  });
}

/** Releases the id of a Capsule whose databases are gone; repeated calls have the same answer. */
export function finalizeCapsule(context: Context, call: Call, capsule: string): Promise<true> {
  const entry = { ...about(call, 'capsule.finalize', 'provisioner'), capsule };
  return context.connections.transaction((session) => finalize(session, entry));
}

/**
 * Runs every item even if one fails, so that one blocked drop does not prevent the others; then throws the first error.
 */
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
