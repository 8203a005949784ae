import { type Finding, lastFindings, no } from '../conditions.ts';
import type { Context } from '../context.ts';
import {
  ASSISTANT,
  type Assistant,
  CAPSULE,
  type Capsule,
  CONFIG_MAP,
  DEPLOYMENT,
  SECRET,
  SERVICE,
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
import { claimedId, pair } from '../stores.ts';
import { closeClaim, isRetained, retainClaim } from './claim.ts';
import { settleData, tellEnd } from './data.ts';
import { readWorkloadSecret } from './facts.ts';
import { decideFate, ownsDatabase, staysWithCapsule } from './fate.ts';
import { findsPods } from './pods.ts';
import { reportAssistant } from './status.ts';
import { removeEgress } from './steps/egress.ts';

/**
 * The order of a deletion: pods, database, objects, Secrets, finalizer. It waits for no gate. Only the registered owner of an
 * id drops its database; whoever lost the id leaves without a trace.
 */
export async function finalizeAssistant(
  context: Context,
  assistant: Assistant,
  signal: AbortSignal,
): Promise<Result> {
  if (!assistant.metadata.finalizers?.includes(ASSISTANT_FINALIZER)) return {};
  const wait = (finding: Finding) =>
    reportAssistant(
      context,
      assistant,
      { manifest: assistant.status?.manifest },
      { Finalized: finding, ...lastFindings(assistant.status?.conditions) },
      signal,
    );
  return tellingRefusal(wait, () => takeAway(context, assistant, wait, signal));
}

/** All that is the Assistant's, in an order in which nothing is left that nobody finds. */
export async function takeAway(
  context: Context,
  assistant: Assistant,
  wait: (finding: Finding) => Promise<void>,
  signal: AbortSignal,
): Promise<Result> {
  const { names, stores, writer } = context;
  const { uid } = assistant.metadata;
  const { capsule: capsuleName } = assistant.spec;
  // What it was known by counts, whatever its manifest says by now.
  const id = assistant.status?.manifest?.id ?? claimedId(assistant);
  context.appUsages.forget(uid ?? '');
  const done = () =>
    removeFinalizer(writer, ASSISTANT, assistant, ASSISTANT_FINALIZER, signal).then(() => ({}));
  if (id === undefined) return done();

  const mine = <T extends KubeObject>(objects: readonly T[]) =>
    objects.filter(({ metadata }) => metadata.annotations?.[ANNOTATION.owner] === uid);
  const remove = (resource: Resource, objects: readonly KubeObject[]) =>
    together(
      objects
        .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
        .map((object) => writer.remove(resource, object, signal)),
    );
  const claim = pair(capsuleName, id);
  await together([
    remove(DEPLOYMENT, mine(stores.deployments.by('assistant', claim))),
    remove(SERVICE, mine(stores.services.by('assistant', claim))),
  ]);
  if (
    mine(stores.pods.by('assistant', claim)).length > 0 ||
    mine(stores.deployments.by('assistant', claim)).length > 0
  ) {
    await wait(PODS_REMAIN);
    return {};
  }

  const namespace = capsuleNamespace(names.space, capsuleName);
  const secret = await readWorkloadSecret(context, namespace, workloadSecretName(id), signal);
  const token = await readWorkloadSecret(context, namespace, workloadObjectsSecretName(id), signal);
  let retained = false;
  const asks = claimedId(assistant);
  const rivals = asks === undefined ? [] : stores.assistants.by('claim', pair(capsuleName, asks));
  const known = stores.capsules.get(makeKey(names.namespace, capsuleName));
  if (ownsDatabase(assistant, secret, rivals) && !staysWithCapsule(assistant, known)) {
    // A drop cannot be undone, and a store is as old as its watch.
    if (await findsPods(context, namespace, id, uid, signal)) {
      await wait(PODS_REMAIN);
      return { requeueAfterMs: LOOK_AGAIN_MS };
    }
    const [asked, capsule] = await Promise.all([
      readAnew<Assistant>(context, ASSISTANT, assistant.metadata.name, signal),
      readAnew<Capsule>(context, CAPSULE, capsuleName, signal),
    ]);
    const fate = decideFate(context, assistant, asked, capsule);
    const { grace } = fate;
    const kept = await settleData(context, assistant, { ...fate, id, token }, signal);
    if (typeof kept === 'object') {
      await wait(kept.finding);
      throw kept.cause;
    }
    retained = fate.retained && kept !== 'nothing';
    if (grace) {
      await removeEgress(context, assistant, id, signal);
      await remove(SECRET, mine([token].filter((one) => one !== undefined)));
      if (secret) await closeClaim(context, secret, signal);
      await wait(grace.finding);
      return { requeueAfterMs: grace.requeueAfterMs };
    }
    tellEnd(context, assistant, id, { asked: fate.retained, kept });
  }
  await removeEgress(context, assistant, id, signal);
  await remove(SECRET, mine([retained ? undefined : secret, token].filter((one) => one !== undefined)));
  // From here on another may take the id up.
  if (retained && secret && !isRetained(secret)) await retainClaim(context, secret, signal);
  await remove(CONFIG_MAP, mine(stores.configMaps.by('assistant', claim)));
  return done();
}

const PODS_REMAIN = no('PodsRemain', 'Its pods are being stopped; what else it has goes after them.');
const LOOK_AGAIN_MS = 2_000;
