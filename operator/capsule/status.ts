import type { CapsuleStatus, StatusCondition } from '@space/manifests';
import { type Findings, toConditions } from '../conditions.ts';
import type { Context } from '../context.ts';
import { type Assistant, CAPSULE, type Capsule } from '../kinds.ts';
import { covers } from '../runtime/covers.ts';

/** What the status shows. A usage that is not known stays as it was. */
interface Report {
  readonly namespace?: string;
  readonly findings: Findings;
  readonly usage?: CapsuleStatus['usage'];
}

/** Writes the status if it changed, and records Events about the changes. */
export async function reportCapsule(
  context: Context,
  capsule: Capsule,
  { namespace, findings, usage = {} }: Report,
  signal: AbortSignal,
): Promise<void> {
  const before = capsule.status?.conditions;
  const known = capsule.status?.usage;
  const assistants = context.stores.assistants.by('capsule', capsule.metadata.name);
  const conditions = toConditions(findings, before, capsule.metadata.generation, context.now);
  const status = {
    observedGeneration: capsule.metadata.generation,
    ...(namespace === undefined ? {} : { namespace }),
    ...(known === undefined && usage.database === undefined && usage.storage === undefined
      ? {}
      : { usage: { ...known, ...usage } }),
    assistants: { total: assistants.length, ready: assistants.filter(isReady).length },
    conditions,
  };
  if (covers(status, capsule.status ?? {})) return;
  await context.writer.applyStatus(CAPSULE, capsule, status, signal);
  tellCapsule(context, capsule, before ?? [], conditions);
}

export function isReady(object: Capsule | Assistant): boolean {
  return (
    object.status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') ?? false
  );
}

/** These get no Event: `Ready` only sums up, and a deletion in progress or a requested suspension is expected. */
const QUIET = new Set(['Ready', 'Finalized']);

function tellCapsule(
  context: Context,
  capsule: Capsule,
  before: readonly StatusCondition[],
  now: readonly StatusCondition[],
): void {
  const tell = (type: 'Normal' | 'Warning', reason: string, action: string, note: string) =>
    context.events.record(CAPSULE, capsule, { type, reason, action, note });
  for (const condition of now) {
    const old = before.find(({ type }) => type === condition.type);
    if (old?.status === condition.status && old.reason === condition.reason) continue;
    if (condition.type === 'SandboxReady' && condition.status !== 'True') {
      tell('Warning', 'SandboxRefused', 'Gate', condition.message);
    } else if (condition.type === 'SandboxReady' && old) {
      tell('Normal', 'SandboxRestored', 'Gate', condition.message);
    } else if (condition.type === 'DatabaseReady' && condition.reason === 'NearQuota') {
      tell('Warning', 'NearQuota', 'Measure', condition.message);
    } else if (condition.type === 'DatabaseReady' && condition.status === 'True') {
      if (old?.status !== 'True') tell('Normal', 'DatabaseProvisioned', 'Provision', condition.message);
    } else if (
      condition.status === 'False' &&
      !QUIET.has(condition.type) &&
      condition.reason !== 'Suspended'
    ) {
      tell('Warning', condition.reason, 'Reconcile', condition.message);
    }
  }
}
