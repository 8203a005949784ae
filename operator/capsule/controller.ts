import { type Findings, inOrder, isTrue, type Reason } from '../conditions.ts';
import type { Context } from '../context.ts';
import { CAPSULE, type Capsule } from '../kinds.ts';
import { CAPSULE_FINALIZER } from '../names.ts';
import { asRefused } from '../refusals.ts';
import type { Result } from '../runtime/controller.ts';
import { addFinalizer } from '../runtime/finalizer.ts';
import type { Key } from '../runtime/kube-object.ts';
import { together } from '../runtime/together.ts';
import type { Step } from '../step.ts';
import { type BrokerCondition, isProvisioned, SUSPENDED, waitsFor } from './decide.ts';
import { type CapsuleFacts, gatherFacts } from './facts.ts';
import { finalizeCapsule, ORPHANS_MS, type Orphans } from './finalize.ts';
import { reportCapsule } from './status.ts';
import { ensureDatabase } from './steps/database.ts';
import { ensureFiles } from './steps/files.ts';
import { USAGE_SOON_MS } from './steps/limits.ts';
import { ensureGuardrails, type Guardrails } from './steps/namespace.ts';
import { ensurePullSecret } from './steps/pull-secret.ts';

const UNWATCHED = new Set<Reason>(['NamespaceConflict', 'PrincipalConflict', 'PrincipalLost']);
/** Findings whose cause only a broker knows to have ended. */
const MENDABLE = new Set<Reason>(['QuotaExceeded', 'DatabaseLost', 'BrokerRefused']);
const LOOK_AGAIN_MS = 15_000;

/** Reconciles one Capsule: facts, finalizer, guardrails, gate, principals, provision, status. */
export function reconcileCapsules(orphans: Orphans) {
  return async (context: Context, key: Key, signal: AbortSignal): Promise<Result> => {
    const capsule = context.stores.capsules.get(key);
    if (!capsule) return {};
    if (capsule.metadata.deletionTimestamp !== undefined)
      return finalizeCapsule(context, capsule, orphans, signal);
    const facts = gatherFacts(context, capsule);
    if (!isTrue(facts.name)) {
      await reportCapsule(context, capsule, { findings: nothingBegun(context, facts) }, signal);
      return {};
    }
    const guardrails = await ensureBounds(context, facts, signal);
    const before: Findings = {
      SandboxReady: facts.sandbox,
      NamespaceReady: guardrails.namespace,
      NetworkReady: guardrails.network,
    };
    const { database, files } = await ensureData(context, facts, before, signal);
    const findings = {
      ...before,
      DatabaseReady: database.finding,
      ...(files ? { ObjectStoreReady: files.finding } : {}),
    };
    const usage = {
      ...(database.output === undefined ? {} : { database: database.output }),
      ...(files?.output === undefined ? {} : { storage: files.output }),
    };
    await reportCapsule(context, capsule, { namespace: facts.namespace, findings, usage }, signal);
    const swept = await orphans.sweep(context, capsule, signal);
    const retry = guardrails.retry ?? database.retry ?? files?.retry;
    if (retry) throw retry;
    if (swept) return { requeueAfterMs: ORPHANS_MS };
    return { requeueAfterMs: requeueAfterMs(context, findings) };
  };
}

function nothingBegun({ objectStore }: Context, { sandbox, name }: CapsuleFacts): Findings {
  const waiting = waitsFor('NamespaceReady');
  return {
    SandboxReady: sandbox,
    NamespaceReady: name,
    NetworkReady: waiting,
    DatabaseReady: waiting,
    ...(objectStore ? { ObjectStoreReady: waiting } : {}),
  };
}

/** Ensures finalizer, guardrails and pull Secret, whatever the gate and the brokers say. */
async function ensureBounds(context: Context, facts: CapsuleFacts, signal: AbortSignal): Promise<Guardrails> {
  const { capsule } = facts;
  const finalizer = { resource: CAPSULE, name: CAPSULE_FINALIZER };
  const guardrails = await addFinalizer(context.writer, finalizer, capsule, signal).then(
    () => ensureGuardrails(context, capsule, signal),
    withoutFinalizer,
  );
  tellRestored(context, capsule, guardrails.restored);
  if (!isTrue(guardrails.namespace)) return guardrails;
  const refused = await ensurePullSecret(context, facts, signal).then(() => undefined, asRefused);
  return refused
    ? { ...guardrails, namespace: refused.finding, retry: guardrails.retry ?? refused.retry }
    : guardrails;
}

/** Without its finalizer nothing may be created for a Capsule. */
function withoutFinalizer(error: unknown): Guardrails {
  const { finding, retry } = asRefused(error);
  return { namespace: finding, network: waitsFor('NamespaceReady'), restored: [], retry };
}

function tellRestored(context: Context, capsule: Capsule, kinds: readonly string[]): void {
  for (const kind of kinds) {
    const note = `Somebody had changed or deleted the ${kind} of this Capsule; it was restored.`;
    context.events.record(CAPSULE, capsule, {
      type: 'Warning',
      reason: 'GuardrailRestored',
      action: 'Restore',
      note,
    });
  }
}

/** Data that a broker has already is reconciled in any case; new data is provisioned only if nothing prevents it. */
async function ensureData(
  context: Context,
  facts: CapsuleFacts,
  before: Findings,
  signal: AbortSignal,
): Promise<{ readonly database: Step<string>; readonly files: Step<string> | undefined }> {
  const { objectStore } = context;
  const { capsule } = facts;
  const { spec } = capsule;
  const blocked = inOrder(before).find(([, finding]) => !isTrue(finding))?.[0];
  const step = async (
    condition: BrokerCondition,
    take: () => Promise<Step<string>>,
  ): Promise<Step<string>> => {
    if (isProvisioned(capsule, condition) || (blocked === undefined && !spec.suspend))
      return take().catch(asRefused);
    return { finding: spec.suspend ? SUSPENDED : waitsFor(blocked ?? 'spec.suspend') };
  };
  const [database, files] = await together([
    step('DatabaseReady', () => ensureDatabase(context, facts, signal)),
    objectStore && step('ObjectStoreReady', () => ensureFiles(context, objectStore, facts, signal)),
  ]);
  return { database, files };
}

/** Namespaces and Secrets of somebody else are not watched, so one that is in the way is read again soon. */
function requeueAfterMs(context: Context, findings: Findings): number {
  const isStuck = Object.values(findings).some(
    ({ status, reason }) => status === 'False' && UNWATCHED.has(reason),
  );
  if (isStuck) return LOOK_AGAIN_MS;
  const isMendable = [findings.DatabaseReady, findings.ObjectStoreReady].some(
    (finding) => finding && MENDABLE.has(finding.reason),
  );
  return isMendable ? USAGE_SOON_MS : context.sweepMs();
}
