import type { AssistantStatus, StatusCondition } from '@space/manifests';
import { type Findings, toConditions } from '../conditions.ts';
import type { Context } from '../context.ts';
import { ASSISTANT, type Assistant } from '../kinds.ts';
import { covers } from '../runtime/covers.ts';
import { makeKey } from '../runtime/kube-object.ts';
import { deletionPolicyOf } from './retain.ts';

/** What its status tells beside conditions; what was told before of its usage stays where nothing newer is known. */
interface Told {
  readonly manifest: AssistantStatus['manifest'] | undefined;
  readonly usage?: AssistantStatus['usage'] | undefined;
}

/** Writes the status when it says something new, and tells in Events what changed. */
export async function reportAssistant(
  context: Context,
  assistant: Assistant,
  told: Told,
  findings: Findings,
  signal: AbortSignal,
): Promise<void> {
  const before = assistant.status?.conditions;
  const capsule = context.stores.capsules.get(makeKey(context.names.namespace, assistant.spec.capsule));
  const deletionPolicy = deletionPolicyOf(assistant, capsule);
  const conditions = toConditions(findings, before, assistant.metadata.generation, context.now);
  const usage = { ...assistant.status?.usage, ...told.usage };
  const status = {
    observedGeneration: assistant.metadata.generation,
    ...(told.manifest ? { manifest: told.manifest } : {}),
    ...(Object.keys(usage).length === 0 ? {} : { usage }),
    ...(deletionPolicy ? { deletionPolicy } : {}),
    conditions,
  };
  if (covers(status, assistant.status ?? {})) return;
  await context.writer.applyStatus(ASSISTANT, assistant, status, signal);
  tell(context, assistant, before ?? [], conditions);
}

/** Unmet conditions of these types are worth an Event; others are on their way, or follow from these. */
const TOLD = new Set([
  'Accepted',
  'IntegrationsGranted',
  'InputsBound',
  'DatabaseReady',
  'ObjectStoreReady',
  'EgressReady',
  'SandboxReady',
]);
const TOLD_REASONS = new Set([
  'NotAttested',
  'NodeWithoutHandler',
  'NodeNotReady',
  'ImagePullFailed',
  'CrashLooping',
  'PodsRefused',
  'Unschedulable',
  'WriteRefused',
  'GuardrailsMissing',
]);

/** Not yet, and not for now because somebody wished so: neither is a warning. */
const QUIET_REASONS = new Set(['Waiting', 'Suspended', 'Restoring']);

function tell(
  context: Context,
  assistant: Assistant,
  before: readonly StatusCondition[],
  now: readonly StatusCondition[],
): void {
  for (const { type, status, reason, message } of now) {
    const old = before.find((condition) => condition.type === type);
    if (old?.status === status && old.reason === reason) continue;
    if (type === 'Ready' && status === 'True') {
      const note = 'The Assistant is ready.';
      context.events.record(ASSISTANT, assistant, {
        type: 'Normal',
        reason: 'AssistantReady',
        action: 'Start',
        note,
      });
    }
    if (status === 'False' && (TOLD.has(type) || TOLD_REASONS.has(reason)) && !QUIET_REASONS.has(reason)) {
      const told = type === 'SandboxReady' ? 'SandboxRefused' : reason;
      context.events.record(ASSISTANT, assistant, {
        type: 'Warning',
        reason: told,
        action: 'Reconcile',
        note: message,
      });
    }
  }
}
