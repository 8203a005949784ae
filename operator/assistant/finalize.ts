import { type Finding, lastFindings, no } from '../conditions.ts';
import { type Context, readCapsuleSecret } from '../context.ts';
import { warnOfClocks } from '../grace.ts';
import {
  ASSISTANT,
  type Assistant,
  CAPSULE,
  type Capsule,
  CONFIG_MAP,
  DEPLOYMENT,
  SECRET,
  SERVICE,
  type SecretObject,
} from '../kinds.ts';
import { readAnew } from '../last-word.ts';
import {
  ANNOTATION,
  ASSISTANT_FINALIZER,
  capsuleNamespace,
  workloadObjectsSecretName,
  workloadSecretName,
} from '../names.ts';
import { tellingRefusal } from '../refusals.ts';
import type { Result } from '../runtime/controller.ts';
import { removeFinalizer } from '../runtime/finalizer.ts';
import { type KubeObject, makeKey, type Resource } from '../runtime/kube-object.ts';
import { together } from '../runtime/together.ts';
import { idOf, pair } from '../stores.ts';
import { closeClaim, isRetained, registeredOwner, retainClaim } from './claim.ts';
import { type Blocked, settleData, tellEnd } from './data.ts';
import { decideFate, type Fate, ownsDatabase, staysWithCapsule } from './fate.ts';
import type { Leaving } from './identity.ts';
import { findsPods } from './pods.ts';
import { reportAssistant } from './status.ts';
import { removeEgress } from './steps/egress.ts';

/**
 * Finalizes an Assistant: pods, egress policy, database, objects, Secrets, finalizer. It does not wait for the sandbox
 * gate. Only the registered owner of an id drops the database; any other Assistant leaves everything as it is.
 */
export async function finalizeAssistant(
  context: Context,
  assistant: Assistant,
  signal: AbortSignal,
): Promise<Result> {
  if (!assistant.metadata.finalizers?.includes(ASSISTANT_FINALIZER)) return {};
  const wait = (finding: Finding) => {
    const findings = { Finalized: finding, ...lastFindings(assistant.status?.conditions) };
    return reportAssistant(context, assistant, { findings, manifest: assistant.status?.manifest }, signal);
  };
  return tellingRefusal(wait, () => takeAway(context, assistant, wait, signal));
}

/** The Assistant that is being finalized. */
interface Finalizing extends Leaving {
  /** Reports in the status what the deletion waits for. */
  readonly wait: (finding: Finding) => Promise<void>;
}

/** Removes everything that belongs to the Assistant, in an order that leaves nothing behind if it is interrupted. */
export async function takeAway(
  context: Context,
  assistant: Assistant,
  wait: (finding: Finding) => Promise<void>,
  signal: AbortSignal,
): Promise<Result> {
  const id = idOf(assistant);
  context.appUsages.forget(assistant.metadata.uid ?? '');
  const finalizer = { resource: ASSISTANT, name: ASSISTANT_FINALIZER };
  const done = () => removeFinalizer(context.writer, finalizer, assistant, signal).then(() => ({}));
  if (id === undefined) return done();

  const leaving: Finalizing = { assistant, id, wait };
  if (!(await stopWorkload(context, leaving, signal))) {
    await wait(PODS_REMAIN);
    return {};
  }

  const unacknowledged = await removeEgress(context, leaving, signal);
  const secrets = await readSecrets(context, leaving, signal);
  const { claim, token } = secrets;
  let retained = false;
  if (mustEndData(context, leaving, claim)) {
    const end = await endData(context, leaving, { ...secrets, unacknowledged }, signal);
    if (typeof end === 'object') return end;
    retained = end === 'retained';
    // The database is dropped and the Secret has no owner any more, so its URL is removed as well.
    if (!retained && claim && registeredOwner(claim) === undefined)
      await context.writer.remove(SECRET, claim, signal);
  }
  if (unacknowledged) await hold(leaving, unacknowledged);
  await removeAll(context, SECRET, ownOf(assistant, [retained ? undefined : claim, token]), signal);
  // From here on another Assistant may take the id over.
  if (retained && claim && !isRetained(claim)) await retainClaim(context, claim, signal);
  const configMaps = context.stores.configMaps.by('assistant', pair(assistant.spec.capsule, id));
  await removeAll(context, CONFIG_MAP, ownOf(assistant, configMaps), signal);
  return done();
}

/** Deletes the Deployment and its pods; returns whether none of them is left. */
async function stopWorkload(
  context: Context,
  { assistant, id }: Leaving,
  signal: AbortSignal,
): Promise<boolean> {
  const { deployments, services, pods } = context.stores;
  const claim = pair(assistant.spec.capsule, id);
  await together([
    removeAll(context, DEPLOYMENT, ownOf(assistant, deployments.by('assistant', claim)), signal),
    removeAll(context, SERVICE, ownOf(assistant, services.by('assistant', claim)), signal),
  ]);
  return (
    ownOf(assistant, pods.by('assistant', claim)).length === 0 &&
    ownOf(assistant, deployments.by('assistant', claim)).length === 0
  );
}

/** The Secrets of the id in the Capsule's namespace, whoever owns them. */
interface Secrets {
  readonly claim: SecretObject | undefined;
  /** The Secret with the object store's token. */
  readonly token: SecretObject | undefined;
}

async function readSecrets(
  context: Context,
  { assistant, id }: Leaving,
  signal: AbortSignal,
): Promise<Secrets> {
  const namespace = capsuleNamespace(context.names.space, assistant.spec.capsule);
  const claim = await readCapsuleSecret(context, namespace, workloadSecretName(id), signal);
  const token = await readCapsuleSecret(context, namespace, workloadObjectsSecretName(id), signal);
  return { claim, token };
}

/** Whether the data belongs to the Assistant and does not stay with its Capsule. */
function mustEndData(
  { names, stores }: Context,
  { assistant, id }: Leaving,
  claim: SecretObject | undefined,
): boolean {
  const { capsule } = assistant.spec;
  const rivals = stores.assistants.by('id', pair(capsule, id));
  const known = stores.capsules.get(makeKey(names.namespace, capsule));
  return ownsDatabase(assistant, claim, rivals) && !staysWithCapsule(assistant, known);
}

/** Drops the data, or locks what is kept. While neither is final, returns when to try again. */
async function endData(
  context: Context,
  leaving: Finalizing,
  { claim, token, unacknowledged }: Secrets & { readonly unacknowledged: Blocked | undefined },
  signal: AbortSignal,
): Promise<'dropped' | 'retained' | Result> {
  const { assistant, wait } = leaving;
  // A drop cannot be undone, and a store may lag behind the API server, so the API server is asked for pods.
  if (await findsPods(context, leaving, signal)) {
    await wait(PODS_REMAIN);
    return { requeueAfterMs: LOOK_AGAIN_MS };
  }
  const fate = await readFate(context, assistant, signal);
  if (fate === undefined) return {};
  const { grace } = fate;
  // In its grace period everything is closed that can be, since nothing of that ends the data.
  if (unacknowledged && !grace) await hold(leaving, unacknowledged);
  const kept = await settleData(context, leaving, { ...fate, token }, signal);
  if (typeof kept === 'object') return hold(leaving, kept);
  if (grace) {
    await removeAll(context, SECRET, ownOf(assistant, [token]), signal);
    if (claim) await closeClaim(context, claim, signal);
    if (unacknowledged) {
      const message = `${grace.finding.message} ${unacknowledged.finding.message}`;
      await hold(leaving, { ...unacknowledged, finding: { ...grace.finding, message } });
    }
    await wait(grace.finding);
    return { requeueAfterMs: grace.requeueAfterMs };
  }
  tellEnd(context, leaving, { asked: fate.retained, kept });
  return fate.retained && kept !== 'nothing' ? 'retained' : 'dropped';
}

/** Says in the status what the deletion waits for, and has it tried again. */
async function hold({ wait }: Finalizing, { finding, cause }: Blocked): Promise<never> {
  await wait(finding);
  throw cause;
}

/** Undefined if a deleted Assistant is gone, of which a store may not know yet: another one may have its id, and data. */
async function readFate(
  context: Context,
  assistant: Assistant,
  signal: AbortSignal,
): Promise<Fate | undefined> {
  const [asked, capsule] = await Promise.all([
    readAnew<Assistant>(context, ASSISTANT, assistant.metadata.name, signal),
    readAnew<Capsule>(context, CAPSULE, assistant.spec.capsule, signal),
  ]);
  const { uid, deletionTimestamp } = assistant.metadata;
  if (deletionTimestamp !== undefined && asked.object?.metadata.uid !== uid) return undefined;
  const said = [asked.saidAt, capsule.saidAt].filter((at) => at !== undefined);
  const clocks = { ...context.clocks(), server: said.length === 0 ? undefined : Math.min(...said) };
  const fate = decideFate(context, clocks, assistant, { asked: asked.object, capsule: capsule.object });
  if (fate.grace) warnOfClocks(context, clocks);
  return fate;
}

function ownOf<T extends KubeObject>(assistant: Assistant, objects: readonly (T | undefined)[]): T[] {
  return objects
    .filter((one) => one !== undefined)
    .filter(({ metadata }) => metadata.annotations?.[ANNOTATION.owner] === assistant.metadata.uid);
}

function removeAll(
  { writer }: Context,
  resource: Resource,
  objects: readonly KubeObject[],
  signal: AbortSignal,
) {
  return together(
    objects
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map((object) => writer.remove(resource, object, signal)),
  );
}

const PODS_REMAIN = no(
  'PodsRemain',
  'Its pods are being stopped; its other objects are removed after them. If the node of a pod is lost, delete the Node object once the node is off.',
);
const LOOK_AGAIN_MS = 2_000;
