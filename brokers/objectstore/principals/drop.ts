import { ServiceError } from '@space/broker-kit';
import {
  about,
  audit,
  type Call,
  finalizeCapsule as finalize,
  moveCapsule,
  retireCapsule,
  type Undecided,
} from '@space/broker-kit/principals';
import { S3Error } from '../upstream/errors.ts';
import type { PrincipalsContext } from './context.ts';
import { decideDrop } from './decide.ts';
import {
  droppedWithCapsule,
  lockWorkload,
  markAllDropped,
  markCapsuleDropping,
  markDropped,
  markDropping,
  type Workload,
} from './rows.ts';

/**
 * Anchors that a principal has ended. A bucket without room for that gets it by the deletion of what is dropped, which may
 * come first: nobody is told of the drop before it is anchored.
 */
async function anchor(context: PrincipalsContext, prefix: string): Promise<void> {
  try {
    await context.epochs.anchor();
  } catch (error) {
    if (!(error instanceof ServiceError && error.cause instanceof S3Error && error.cause.mayBeFull))
      throw error;
    await context.leasesLapse();
    await context.sweep(prefix);
    await context.epochs.anchor();
  }
}

/** Drops a workload and its objects. Access ends in the first transaction, whatever fails after it. */
export async function dropWorkload(
  context: PrincipalsContext,
  call: Call,
  workload: Workload,
): Promise<{ readonly alreadyAbsent: boolean }> {
  const entry = { ...about(call, 'capsule.app.drop', 'capsule'), ...workload };
  const { prefix, alreadyAbsent } = await context.connections.transaction(async (session) => {
    const { incarnation } = await context.capsules.authorise(session, call, workload.capsule, 'apps');
    const row = await lockWorkload(session, workload);
    const decision = decideDrop(row, incarnation);
    if (row === undefined || decision === 'never created')
      throw new ServiceError('not_found', 'never created');
    if (decision === 'cut') await markDropping(session, workload);
    await audit(session, { ...entry, outcome: decision });
    return { prefix: row.prefix, alreadyAbsent: decision === 'already absent' };
  });
  context.failpoint('drop:after-cut');
  await anchor(context, prefix);
  if (alreadyAbsent) return { alreadyAbsent };
  await context.leasesLapse();
  await finishDrop(context, entry, workload, prefix);
  return { alreadyAbsent };
}

/**
 * Deletes the objects and leaves the tombstone. It may run twice, also concurrently: the prefix belongs to one
 * generation, so it never affects objects of a newer workload.
 */
export async function finishDrop(
  context: PrincipalsContext,
  entry: Undecided,
  workload: Workload,
  prefix: string,
): Promise<void> {
  await context.sweep(prefix);
  context.failpoint('drop:after-sweep');
  await context.connections.transaction(async (session) => {
    const row = await lockWorkload(session, workload);
    if (row?.state !== 'dropping' || row.prefix !== prefix) return;
    await markDropped(session, workload);
    await audit(session, { ...entry, outcome: 'dropped' });
    context.failpoint('drop:before-commit');
  });
}

/** Drops everything that is registered for the Capsule, then retires its principal. Returns the workloads, sorted. */
export async function dropCapsule(
  context: PrincipalsContext,
  call: Call,
  capsule: string,
): Promise<string[]> {
  const entry = { ...about(call, 'capsule.drop', 'capsule'), capsule };
  const { incarnation, prefix } = await context.connections.transaction(async (session) => {
    const { state, incarnation, prefix } = await context.capsules.authorise(session, call, capsule, 'drop');
    if (state === 'active') {
      await markCapsuleDropping(session, capsule, prefix);
      await moveCapsule(session, capsule, 'active', 'dropping');
    }
    await audit(session, { ...entry, outcome: state === 'active' ? 'cut' : 'resume' });
    return { incarnation, prefix };
  });
  context.failpoint('capsule-drop:after-cut');
  await anchor(context, prefix);
  await context.leasesLapse();
  await context.sweep(prefix);
  context.failpoint('capsule-drop:after-sweep');
  await context.clearCustody(capsule);
  context.failpoint('capsule-drop:after-custody');
  const dropped = await context.connections.transaction(async (session) => {
    // If another caller has retired it meanwhile, the id may have been provisioned again, and nothing is to be marked.
    if (await retireCapsule(session, entry, incarnation)) await markAllDropped(session, capsule);
    context.failpoint('capsule-drop:before-commit');
    return droppedWithCapsule(session, capsule, incarnation);
  });
  await context.epochs.anchor();
  return dropped;
}

/** Releases the id of a Capsule whose objects are gone; repeated calls have the same answer. */
export function finalizeCapsule(context: PrincipalsContext, call: Call, capsule: string): Promise<true> {
  const entry = { ...about(call, 'capsule.finalize', 'provisioner'), capsule };
  return context.connections.transaction((session) => finalize(session, entry));
}
