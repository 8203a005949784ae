import { type Finding, type Findings, isTrue, no, yes } from '../conditions.ts';
import type { Capsule } from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { databaseBefore, recordOf } from './claim.ts';
import * as decide from './decide.ts';
import type { Facts } from './facts.ts';

/** The facts that the plan depends on. */
export type PlanFacts = Pick<
  Facts,
  | 'assistant'
  | 'check'
  | 'workload'
  | 'capsule'
  | 'sandbox'
  | 'neighbours'
  | 'claim'
  | 'inputsBound'
  | 'provisioned'
  | 'objects'
>;

/** What the conditions say before any step, and which steps may be taken. */
export interface Plan {
  readonly findings: Findings;
  /** Whether the Assistant gets a finalizer, so that its deletion waits for the cleanup. */
  readonly accepted: boolean;
  readonly suspended: boolean;
  /** The data of the Capsule is being restored, and the Assistant has no pods until that is done. */
  readonly restoring: boolean;
  /** Whether database and files are prepared for a restore, whatever else the pods wait for. */
  readonly provisionForRestore: boolean;
  /** Nothing prevents provisioning and scheduling. */
  readonly run: boolean;
  /** Only its Capsule or the sandbox is not ready, so that pods which run may have what the manifest asks for. */
  readonly onlyWaits: boolean;
}

/** Decides the conditions of an Assistant, in their order. */
export function planAssistant(facts: PlanFacts): Plan {
  const { assistant, check, workload, capsule, sandbox, neighbours, claim, provisioned, objects } = facts;
  const { spec } = assistant;
  const understood = decide.decideAccepted(spec, check);
  const accepted =
    [
      understood,
      decide.decideIdentity(assistant),
      decide.decideOwner(assistant, claim),
      decide.decideAssistantQuota(assistant, capsule, neighbours),
    ].find((finding) => finding && !isTrue(finding)) ?? understood;
  const suspended = spec.suspend === true || capsule?.spec.suspend === true;
  const before = {
    Accepted: accepted,
    CapsuleReady:
      suspended && capsule ? suspendedCapsule(capsule) : decide.decideCapsule(spec.capsule, capsule),
    SandboxReady: sandbox,
  };
  const needs = workload
    ? {
        IntegrationsGranted:
          decide.decideApproval(assistant, workload, capsule) ??
          decide.decideIntegrations(workload.manifest, capsule?.spec.integrations),
        InputsBound: facts.inputsBound,
        EgressReady: workload.egress.finding,
      }
    : unreadable();
  const blockedBy = decide.firstUnmet({ ...before, ...needs });
  const restoring = !suspended && capsule?.metadata.annotations?.[ANNOTATION.restoring] !== undefined;
  const waiting = suspended ? SUSPENDED : decide.waitsFor(blockedBy ?? 'DatabaseReady');
  const database = provisioned
    ? yes('Ready', 'It has a database of its own.')
    : (databaseKept(facts) ?? waiting);
  const objectStore = objects && {
    ObjectStoreReady: objects.registered
      ? yes('Ready', 'It has a place of its own in the object store.')
      : waiting,
  };
  const { EgressReady, ...others } = needs;
  return {
    findings: {
      ...before,
      ...others,
      DatabaseReady: database,
      ...objectStore,
      EgressReady,
      WorkloadReady: restoring ? RESTORING : waiting,
    },
    accepted: isTrue(accepted),
    suspended,
    restoring,
    provisionForRestore: restoring && decide.firstUnmet(before) === undefined,
    run: blockedBy === undefined && !suspended && !restoring,
    onlyWaits:
      blockedBy !== undefined &&
      decide.firstUnmet({ Accepted: accepted, ...needs }) === undefined &&
      !suspended &&
      !restoring,
  };
}

/**
 * What the status goes on to say of a database without a URL. A deletion decides by that once the claim is lost, and an
 * Assistant's own claim may be lost at any moment.
 */
function databaseKept({ assistant, claim, provisioned }: PlanFacts): Finding | undefined {
  const before = databaseBefore(assistant);
  // The claim of the id that the manifest names now says nothing of the database.
  const isOfAnotherId = decide.formerId(assistant) !== undefined;
  if (provisioned === undefined || before === undefined || isOfAnotherId) return before;
  return claim.registered === assistant.metadata.uid ? recordOf(before) : undefined;
}

const SUSPENDED = no('Suspended', 'It, or its Capsule, has spec.suspend: true. Set it to false to resume.');

const RESTORING = no(
  'Restoring',
  `The data of its Capsule is being restored from a backup. It starts when that is done and the Capsule's annotation ${ANNOTATION.restoring} is removed.`,
);

/**
 * A suspended Capsule may never have been provisioned, and counts as ready for Assistants that are suspended with it.
 */
function suspendedCapsule(capsule: Capsule): Finding {
  return capsule.metadata.deletionTimestamp === undefined && capsule.spec.suspend
    ? yes('Ready', `Capsule "${capsule.metadata.name}" is suspended.`)
    : decide.decideCapsule(capsule.metadata.name, capsule);
}

function unreadable() {
  const waiting = decide.waitsFor('Accepted');
  return { IntegrationsGranted: waiting, InputsBound: waiting, EgressReady: waiting };
}
