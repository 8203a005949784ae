import { sweepOrphans } from '../assistant/orphans.ts';
import {
  type ConditionType,
  type Finding,
  type Findings,
  inOrder,
  isTrue,
  type Reason,
} from '../conditions.ts';
import type { Context } from '../context.ts';
import { CAPSULE } from '../kinds.ts';
import { CAPSULE_FINALIZER, capsuleNamespace } from '../names.ts';
import { asRefused } from '../refusals.ts';
import type { Result } from '../runtime/controller.ts';
import { addFinalizer } from '../runtime/finalizer.ts';
import type { Key } from '../runtime/objects.ts';
import { together } from '../runtime/together.ts';
import { ensureDatabase } from './database.ts';
import { decideName, SUSPENDED, waitsFor } from './decide.ts';
import { finalizeCapsule } from './finalize.ts';
import { USAGE_SOON_MS } from './limits.ts';
import { ensureGuardrails, type Guardrails } from './namespace.ts';
import { ensureObjectStore } from './objects.ts';
import { ensurePullSecret } from './pull.ts';
import { reportCapsule } from './status.ts';

const UNWATCHED = new Set<Reason>(['NamespaceConflict', 'PrincipalConflict', 'PrincipalLost']);
const LOOK_AGAIN_MS = 15_000;
/** Until the pods of one that is taken away are gone. */
const ORPHANS_MS = 2_000;

interface Step {
  readonly finding: Finding;
  readonly usage?: string;
  /** A broker's failure: told in the condition, and tried again. */
  readonly retry?: unknown;
}

/** The order of a Capsule: finalizer, guardrails, gate, principals, provision, Ready. */
export async function reconcileCapsule(context: Context, key: Key, signal: AbortSignal): Promise<Result> {
  const capsule = context.stores.capsules.get(key);
  if (!capsule) return {};
  if (capsule.metadata.deletionTimestamp !== undefined) return finalizeCapsule(context, capsule, signal);

  const sandbox = context.gate();
  const name = decideName(capsule.metadata.name);
  if (!isTrue(name)) {
    const waiting = waitsFor('NamespaceReady');
    const findings = {
      SandboxReady: sandbox,
      NamespaceReady: name,
      NetworkReady: waiting,
      DatabaseReady: waiting,
      ...(context.objectStore ? { ObjectStoreReady: waiting } : {}),
    };
    await reportCapsule(context, capsule, undefined, findings, signal);
    return {};
  }

  const guardrails = await addFinalizer(context.writer, CAPSULE, capsule, CAPSULE_FINALIZER, signal).then(
    () => ensureGuardrails(context, capsule, signal),
    nothingBegun,
  );
  for (const kind of guardrails.restored) {
    const note = `Somebody had changed or deleted the ${kind} of this Capsule; it was put back.`;
    context.events.record(CAPSULE, capsule, {
      type: 'Warning',
      reason: 'GuardrailRestored',
      action: 'Restore',
      note,
    });
  }
  const pull = isTrue(guardrails.namespace)
    ? await ensurePullSecret(context, capsule, signal).then(() => undefined, asRefused)
    : undefined;
  const before: Findings = {
    SandboxReady: sandbox,
    NamespaceReady: pull?.finding ?? guardrails.namespace,
    NetworkReady: guardrails.network,
  };
  const blocked = inOrder(before).find(([, finding]) => !isTrue(finding))?.[0];
  const { objectStore } = context;
  /** What stands is looked after whatever else is in the way; what does not is begun only when nothing is. */
  const step = async (condition: ConditionType, take: () => Promise<Step>): Promise<Step> => {
    const known = capsule.status?.conditions?.some(
      ({ type, status }) => type === condition && status === 'True',
    );
    if (known || (blocked === undefined && !capsule.spec.suspend)) return take().catch(asRefused);
    return { finding: capsule.spec.suspend ? SUSPENDED : waitsFor(blocked ?? 'spec.suspend') };
  };
  const [database, objects] = await together([
    step('DatabaseReady', () => ensureDatabase(context, capsule, signal)),
    objectStore && step('ObjectStoreReady', () => ensureObjectStore(context, objectStore, capsule, signal)),
  ]);

  const findings = {
    ...before,
    DatabaseReady: database.finding,
    ...(objects ? { ObjectStoreReady: objects.finding } : {}),
  };
  await reportCapsule(
    context,
    capsule,
    capsuleNamespace(context.names.space, capsule.metadata.name),
    findings,
    signal,
    {
      ...(database.usage === undefined ? {} : { database: database.usage }),
      ...(objects?.usage === undefined ? {} : { storage: objects.usage }),
    },
  );
  const retry = guardrails.retry ?? pull?.retry ?? database.retry ?? objects?.retry;
  if (retry) throw retry;
  if (await sweepOrphans(context, capsule, signal)) return { requeueAfterMs: ORPHANS_MS };
  // A foreign namespace or Secret in the way is not watched: look again soon.
  const stuck = Object.values(findings).some(
    ({ status, reason }) => status === 'False' && UNWATCHED.has(reason),
  );
  if (stuck) return { requeueAfterMs: LOOK_AGAIN_MS };
  return {
    requeueAfterMs: findings.DatabaseReady.reason === 'QuotaExceeded' ? USAGE_SOON_MS : context.sweepMs(),
  };
}

/** Without its finalizer nothing of a Capsule may be made. */
function nothingBegun(error: unknown): Guardrails {
  const { finding, retry } = asRefused(error);
  return { namespace: finding, network: waitsFor('NamespaceReady'), restored: [], retry };
}
