import type { StatusCondition } from '@space/manifests';
import { clipped } from './text.ts';

/** What a step found out: a condition without its type and its times. */
export interface Finding {
  readonly status: 'True' | 'False' | 'Unknown';
  readonly reason: Reason;
  readonly message: string;
}

/** Every type of condition beside `Ready` and `Stalled`, which sum them up. */
export type ConditionType =
  | 'SandboxReady'
  | 'DatabaseReady'
  | 'ObjectStoreReady'
  // a Capsule
  | 'NamespaceReady'
  | 'NetworkReady'
  // an Assistant
  | 'Accepted'
  | 'CapsuleReady'
  | 'IntegrationsGranted'
  | 'InputsBound'
  | 'EgressReady'
  | 'WorkloadReady'
  // going away
  | 'Finalized';

/** What each step found, in the order in which the status has them. */
export type Findings = Readonly<Partial<Record<ConditionType, Finding>>>;

export const inOrder = (findings: Findings) => Object.entries(findings) as [ConditionType, Finding][];

/** Every reason there is. docs/operator.md says what each means and what to do. */
export type Reason =
  // all is well, or not reached yet
  | 'Ready'
  | 'Waiting'
  | 'Suspended'
  | 'Restoring'
  | 'Deleting'
  // any write, any read
  | 'WriteRefused'
  | 'ReadRefused'
  | 'GuardrailsMissing'
  | 'PolicyNotInForce'
  // the sandbox
  | 'SandboxAvailable'
  | 'RuntimeClassNotFound'
  | 'HandlerMismatch'
  | 'HandlerUnknown'
  | 'NoNodeWithHandler'
  | 'NoNodeReady'
  | 'ClusterUnreadable'
  | 'ProbePending'
  | 'ProbeFailed'
  // a Capsule
  | 'InvalidName'
  | 'NamespaceConflict'
  | 'NamespaceTerminating'
  | 'QuotaInvalid'
  | 'EnforcementUnproven'
  | 'EnforcementFailed'
  | 'NearQuota'
  | 'BrokerUnreachable'
  | 'BrokerRefused'
  | 'BrokerNotOurs'
  | 'PrincipalConflict'
  | 'PrincipalLost'
  | 'DatabaseLost'
  | 'FilesLost'
  | 'GrantKeyUnusable'
  | 'ServiceNotFound'
  // an Assistant
  | 'ManifestInvalid'
  | 'SpecInvalid'
  | 'StoredInputUnknown'
  | 'DuplicateIdentifier'
  | 'QuotaExceeded'
  | 'CapsuleNotFound'
  | 'CapsuleNotReady'
  | 'ScopesNotGranted'
  | 'ApprovalMissing'
  | 'InputsMissing'
  | 'InputSecretNotFound'
  | 'InputSecretRefused'
  | 'InputInvalid'
  | 'InputNeedsReentry'
  | 'InputReflected'
  | 'HostNotEnforceable'
  | 'ForbiddenSlot'
  | 'UnknownHmacProfile'
  | 'GatewayUnavailable'
  | 'GatewayNotAcknowledged'
  | 'NotNeeded'
  | 'Starting'
  | 'Unschedulable'
  | 'ImagePullFailed'
  | 'CrashLooping'
  | 'PodsRefused'
  | 'NotAttested'
  | 'NodeWithoutHandler'
  | 'NodeNotReady'
  // going away
  | 'PodsRemain'
  | 'RetentionGrace'
  | 'AssistantsRemain';

export const yes = (reason: Reason, message: string): Finding => ({ status: 'True', reason, message });
export const no = (reason: Reason, message: string): Finding => ({ status: 'False', reason, message });
export const unknown = (reason: Reason, message: string): Finding => ({ status: 'Unknown', reason, message });

export const isTrue = (finding: Finding | undefined): boolean => finding?.status === 'True';

/** Only a change of the spec resolves these: not time, not other objects, not an administrator. */
const STALLED = new Set<Reason>([
  'InvalidName',
  'QuotaInvalid',
  'ManifestInvalid',
  'SpecInvalid',
  'StoredInputUnknown',
  'HostNotEnforceable',
  'ForbiddenSlot',
  'UnknownHmacProfile',
]);

const LONGEST_MESSAGE = 1000;

/**
 * Makes conditions of findings, in their order, with `Ready` after them: True if all are, else with the reason of the
 * first False one, else Unknown. `Stalled` exists only while it is True, as kstatus expects, so that tools give up
 * instead of waiting. A transition time changes only with its status.
 */
export function toConditions(
  findings: Findings,
  before: readonly StatusCondition[] | undefined,
  generation: number | undefined,
  now: () => string,
): StatusCondition[] {
  const list = inOrder(findings);
  const failed =
    list.find(([, { status }]) => status === 'False') ?? list.find(([, { status }]) => status !== 'True');
  const ready = failed
    ? no(failed[1].reason, `${failed[0]}: ${failed[1].message}`)
    : yes('Ready', 'Everything is in place.');
  const stuck = list.find(([, { status, reason }]) => status === 'False' && STALLED.has(reason));
  const stalled =
    stuck && !('Finalized' in findings)
      ? yes(stuck[1].reason, `${stuck[0]}: ${stuck[1].message}`)
      : undefined;
  const all = [...list, ['Ready', ready] as const, ...(stalled ? [['Stalled', stalled] as const] : [])];
  return all.map(([type, { status, reason, message }]) => {
    const old = before?.find((condition) => condition.type === type);
    return {
      type,
      status,
      reason,
      message: clipped(message, LONGEST_MESSAGE),
      ...(generation === undefined ? {} : { observedGeneration: generation }),
      lastTransitionTime: old?.status === status ? old.lastTransitionTime : now(),
    };
  });
}

/** The findings before a deletion, which stay in the status: that a database was provisioned matters until the end. */
export function lastFindings(conditions: readonly StatusCondition[] = []): Findings {
  const kept = conditions.filter(
    ({ type }) => type !== 'Ready' && type !== 'Stalled' && type !== 'Finalized',
  );
  return Object.fromEntries(
    kept.map(({ type, status, reason, message }) => [type, { status, reason: reason as Reason, message }]),
  );
}

/** A time as the API server writes it, without fractions of a second. */
export function wireTime(date = new Date()): string {
  return date.toISOString().replace(/\.\d+Z$/, 'Z');
}
