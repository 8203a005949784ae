import { refusal, ServiceError, sameDigest, type TokenDigest } from '@space/broker-kit';
import type { Session } from '@space/broker-kit/postgres';
import {
  about,
  audit,
  type Call,
  isRetired,
  registerCapsule,
  retirePrincipal,
  unlessTaken,
} from '@space/broker-kit/principals';
import type { PrincipalsContext } from './context.ts';
import { decideCreate } from './decide.ts';
import {
  insertWorkload,
  lockWorkload,
  putStore,
  type Registration,
  replaceWorkloadPrincipal,
  reviveWorkload,
  storeOf,
  type Workload,
} from './rows.ts';

interface Provisioning {
  readonly capsule: string;
  readonly principal: TokenDigest;
  /** Undefined means the broker's default. */
  readonly quotaBytes: number | undefined;
}

/** Registers a Capsule with its principal and a prefix. Repeated, it sets the quota. */
export function provisionCapsule(
  context: PrincipalsContext,
  call: Call,
  { capsule, principal, quotaBytes }: Provisioning,
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
      const owner = { workload, incarnation, capsulePrefix: prefix, principal };
      const outcome = await ensureWorkload(context, session, owner);
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

/** A workload with its principal, in the present incarnation of its Capsule. */
interface Owner {
  readonly workload: Workload;
  readonly incarnation: number;
  readonly capsulePrefix: string;
  readonly principal: TokenDigest;
}

async function ensureWorkload(
  context: PrincipalsContext,
  session: Session,
  owner: Owner,
): Promise<'created' | 'existing' | 'replaced'> {
  const { workload, principal } = owner;
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
      const registration = registrationOf(context, owner, row.generation);
      // A prefix that was edited does not become valid by being bound again.
      if (row.prefix !== registration.prefix) {
        context.onForged(workload.capsule, workload.app);
        throw refusal();
      }
      await replaceWorkloadPrincipal(session, workload, former, registration);
      return 'replaced';
    }
    const registration = registrationOf(context, owner, decision.generation);
    if (row !== undefined) {
      await reviveWorkload(session, workload, registration);
      return 'created';
    }
    if (await insertWorkload(session, workload, registration)) return 'created';
  }
}

/** The registration of one generation of the workload, bound to its principal. */
function registrationOf(
  { prefixNames, bindings }: PrincipalsContext,
  { workload, incarnation, capsulePrefix, principal }: Owner,
  generation: number,
): Registration {
  const prefix = prefixNames.workload(capsulePrefix, workload.app, generation);
  const bound = { ...workload, incarnation, generation, capsulePrefix, prefix, principal };
  return { incarnation, generation, prefix, principal, mac: bindings.workload.mac(bound) };
}
