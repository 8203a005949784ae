import { refusal, ServiceError, sameDigest, type TokenDigest } from '@space/broker-kit';
import { type Session, SQLSTATE, StepError } from '@space/broker-kit/postgres';
import {
  about,
  audit,
  type Call,
  isRetired,
  registerCapsule,
  retirePrincipal,
} from '@space/broker-kit/principals';
import type { PrincipalsContext } from './context.ts';
import { decideCreate } from './decide.ts';
import {
  insertWorkload,
  lockWorkload,
  putStore,
  replaceWorkloadPrincipal,
  reviveWorkload,
  storeOf,
  type Workload,
} from './rows.ts';

/** Registers a Capsule with its principal and a prefix. Repeated, it sets the quota. */
export function provisionCapsule(
  context: PrincipalsContext,
  call: Call,
  capsule: string,
  principal: TokenDigest,
  quotaBytes: number | undefined,
): Promise<boolean> {
  return unlessTaken(
    context.connections.transaction(async (session) => {
      const { incarnation, begun } = await registerCapsule(session, capsule, principal);
      const prefix = begun
        ? context.prefixNames.capsule(capsule, incarnation)
        : (await storeOf(session, capsule)).prefix;
      await putStore(session, capsule, { incarnation, prefix, quotaBytes: quotaBytes ?? null });
      // Also for a repeated call, whose caller has proved the principal.
      await context.capsules.bind(session, capsule, principal);
      const outcome = begun ? 'created' : 'existing';
      await audit(session, { ...about(call, 'capsule.provision', 'provisioner'), capsule, outcome });
      context.failpoint('provision:before-commit');
      return begun;
    }),
  );
}

/**
 * Registers a workload with its principal, or with another one. Returns whether the workload is new. A repeated call
 * finds the workload and waits all the same, since the previous principal may have been replaced a moment ago.
 */
export async function createWorkload(
  context: PrincipalsContext,
  call: Call,
  workload: Workload,
  principal: TokenDigest,
): Promise<boolean> {
  const created = await unlessTaken(
    context.connections.transaction(async (session) => {
      const { incarnation, prefix } = await context.capsules.authorise(
        session,
        call,
        workload.capsule,
        'apps',
      );
      const outcome = await ensureWorkload(
        context,
        session,
        workload,
        { incarnation, capsulePrefix: prefix },
        principal,
      );
      await audit(session, { ...about(call, 'capsule.app.create', 'capsule'), ...workload, outcome });
      context.failpoint('create:before-commit');
      return outcome === 'created';
    }),
  );
  if (!created) {
    await context.epochs.anchor();
    await context.leasesLapse();
  }
  return created;
}

async function ensureWorkload(
  context: PrincipalsContext,
  session: Session,
  workload: Workload,
  { incarnation, capsulePrefix }: { readonly incarnation: number; readonly capsulePrefix: string },
  principal: TokenDigest,
): Promise<'created' | 'existing' | 'replaced'> {
  for (;;) {
    const row = await lockWorkload(session, workload);
    const former = row?.principal ?? undefined;
    const decision = decideCreate(row, former !== undefined && sameDigest(former, principal));
    if (decision.kind === 'existing') return 'existing';
    if (decision.kind === 'conflict') throw new ServiceError('conflict', 'the workload is being dropped');
    if (await isRetired(session, principal)) throw new ServiceError('conflict', 'the principal is retired');
    if (decision.kind === 'replace') {
      if (row === undefined || former === undefined) throw new Error('a ready workload has no principal');
      await retirePrincipal(session, workload.capsule, former);
      const { generation, prefix } = row;
      // A prefix that was edited does not become valid by being bound again.
      if (prefix !== context.prefixNames.workload(capsulePrefix, workload.app, generation)) {
        context.onForged(workload.capsule, workload.app);
        throw refusal();
      }
      const mac = context.bindings.workload.mac({
        ...workload,
        incarnation,
        generation,
        capsulePrefix,
        prefix,
        principal,
      });
      await replaceWorkloadPrincipal(session, workload, former, { principal, mac });
      return 'replaced';
    }
    const { generation } = decision;
    const prefix = context.prefixNames.workload(capsulePrefix, workload.app, generation);
    const mac = context.bindings.workload.mac({
      ...workload,
      incarnation,
      generation,
      capsulePrefix,
      prefix,
      principal,
    });
    const registration = { incarnation, generation, prefix, principal, mac };
    if (row !== undefined) {
      await reviveWorkload(session, workload, registration);
      return 'created';
    }
    if (await insertWorkload(session, workload, registration)) return 'created';
  }
}

/** The principal belongs to another; only the caller that chose it learns that. */
async function unlessTaken<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (error) {
    const taken = error instanceof StepError && error.code === SQLSTATE.uniqueViolation;
    throw taken ? new ServiceError('conflict', 'the principal is in use', { cause: error }) : error;
  }
}
