import type { AssistantStatus, StatusCondition } from '@space/manifests';
import { type Findings, toConditions } from '../conditions.ts';
import type { Context } from '../context.ts';
import { ASSISTANT, type Assistant } from '../kinds.ts';
import { covers } from '../runtime/covers.ts';
import { makeKey } from '../runtime/kube-object.ts';
import type { Facts } from './facts.ts';
import type { Plan } from './plan.ts';
import { deletionPolicyOf } from './retain.ts';

/** What the status shows. The previous usage stays if no newer one is known. */
interface Report {
  readonly findings: Findings;
  readonly manifest: AssistantStatus['manifest'] | undefined;
  readonly usage?: AssistantStatus['usage'] | undefined;
}

/** The manifest in the status: that which was accepted last. */
export function manifestOf({ assistant, workload }: Facts, { accepted }: Plan) {
  if (!workload || !accepted) return assistant.status?.manifest;
  const { id, version } = workload.manifest.platform;
  return { id, version, digest: `sha256:${workload.digest}` };
}

/** Writes the status if it changed, and records Events about the changes. */
export async function reportAssistant(
  context: Context,
  assistant: Assistant,
  report: Report,
  signal: AbortSignal,
): Promise<void> {
  const before = assistant.status?.conditions;
  const capsule = context.stores.capsules.get(makeKey(context.names.namespace, assistant.spec.capsule));
  const deletionPolicy = deletionPolicyOf(assistant, capsule);
  const conditions = toConditions(report.findings, before, assistant.metadata.generation, context.now);
  const usage = { ...assistant.status?.usage, ...report.usage };
  const status = {
    observedGeneration: assistant.metadata.generation,
    ...(report.manifest ? { capsule: assistant.spec.capsule, manifest: report.manifest } : {}),
    ...(Object.keys(usage).length === 0 ? {} : { usage }),
    ...(deletionPolicy ? { deletionPolicy } : {}),
    conditions,
  };
  if (covers(status, assistant.status ?? {})) return;
  await context.writer.applyStatus(ASSISTANT, assistant, status, signal);
  recordEvents(context, assistant, before ?? [], conditions);
}

/** Unmet conditions of these types get an Event; the others are in progress, or follow from these. */
const EVENT_TYPES = new Set([
  'Accepted',
  'IntegrationsGranted',
  'InputsBound',
  'DatabaseReady',
  'ObjectStoreReady',
  'EgressReady',
  'SandboxReady',
]);
const EVENT_REASONS = new Set([
  'NotAttested',
  'NodeWithoutHandler',
  'NodeNotReady',
  'ImagePullFailed',
  'CrashLooping',
  'PodsRefused',
  'Unschedulable',
  'WriteRefused',
  'ReadRefused',
  'GuardrailsMissing',
]);

/** These reasons mean that something is not done yet, or is suspended on purpose, so they get no warning. */
const QUIET_REASONS = new Set(['Waiting', 'Suspended', 'Restoring']);

function recordEvents(
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
    // Ready has the reason of another condition, which has its own Event.
    if (
      status === 'False' &&
      type !== 'Ready' &&
      (EVENT_TYPES.has(type) || EVENT_REASONS.has(reason)) &&
      !QUIET_REASONS.has(reason)
    ) {
      const eventReason = type === 'SandboxReady' ? 'SandboxRefused' : reason;
      context.events.record(ASSISTANT, assistant, {
        type: 'Warning',
        reason: eventReason,
        action: 'Reconcile',
        note: message,
      });
    }
  }
}
