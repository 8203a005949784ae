import { BrokerError } from '../brokers/client.ts';
import { brokerFinding } from '../brokers/findings.ts';
import { principalOf } from '../capsule/database.ts';
import { type Finding, no } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { ASSISTANT, type Assistant, CONFIG_MAP, DEPLOYMENT, SECRET, SERVICE } from '../kinds.ts';
import { ANNOTATION, ASSISTANT_FINALIZER, capsuleNamespace, principalSecretName } from '../names.ts';
import type { Result } from '../runtime/controller.ts';
import { removeFinalizer } from '../runtime/finalizer.ts';
import { type KubeObject, makeKey, type Resource } from '../runtime/objects.ts';
import { claimedId, pair } from '../stores.ts';
import { registeredOwner } from './database.ts';
import { readWorkloadSecret } from './gather.ts';
import { reportAssistant } from './status.ts';

/**
 * The order of a deletion: pods, database, Secret, finalizer. It waits for no gate. Only the registered owner of an
 * id drops its database; whoever lost the id leaves without a trace.
 */
export async function finalizeAssistant(
  context: Context,
  assistant: Assistant,
  signal: AbortSignal,
): Promise<Result> {
  if (!assistant.metadata.finalizers?.includes(ASSISTANT_FINALIZER)) return {};
  const { names, stores, writer } = context;
  const { uid } = assistant.metadata;
  const { capsule: capsuleName } = assistant.spec;
  // What it was known by counts, whatever its manifest says by now.
  const id = assistant.status?.manifest?.id ?? claimedId(assistant);
  const done = () =>
    removeFinalizer(writer, ASSISTANT, assistant, ASSISTANT_FINALIZER, signal).then(() => ({}));
  if (id === undefined) return done();
  const wait = (finding: Finding) =>
    reportAssistant(
      context,
      assistant,
      assistant.status?.manifest,
      { Finalized: finding, ...lastFindings(assistant) },
      signal,
    );

  const mine = <T extends KubeObject>(objects: readonly T[]) =>
    objects.filter(({ metadata }) => metadata.annotations?.[ANNOTATION.owner] === uid);
  const remove = (resource: Resource, objects: readonly KubeObject[]) =>
    Promise.all(
      objects
        .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
        .map((object) => writer.remove(resource, object, signal)),
    );
  const claim = pair(capsuleName, id);
  await Promise.all([
    remove(DEPLOYMENT, mine(stores.deployments.by('assistant', claim))),
    remove(SERVICE, mine(stores.services.by('assistant', claim))),
  ]);
  if (
    mine(stores.pods.by('assistant', claim)).length > 0 ||
    mine(stores.deployments.by('assistant', claim)).length > 0
  ) {
    await wait(no('PodsRemain', 'Its pods are being stopped; its database is dropped after them.'));
    return {};
  }

  const namespace = capsuleNamespace(names.space, capsuleName);
  const secret = await readWorkloadSecret(context, namespace, id, signal);
  const capsule = stores.capsules.get(makeKey(names.namespace, capsuleName));
  const retain =
    capsule?.metadata.deletionTimestamp !== undefined && capsule.spec.deletionPolicy === 'Retain';
  if (ownsDatabase(context, assistant, secret) && !retain) {
    const blocked = await dropDatabase(context, capsuleName, id, signal);
    if (blocked) {
      await wait(blocked.finding);
      throw blocked.cause;
    }
    const note = 'Its database and its role are dropped.';
    context.events.record(ASSISTANT, assistant, {
      type: 'Normal',
      reason: 'DatabaseDropped',
      action: 'Drop',
      note,
    });
  }
  await remove(CONFIG_MAP, mine(stores.configMaps.by('assistant', claim)));
  if (secret && registeredOwner(secret) === uid) await writer.remove(SECRET, secret, signal);
  return done();
}

/** The Secret says whose it is; should it be gone, what was told in the status does, unless somebody else asks. */
function ownsDatabase(
  context: Context,
  assistant: Assistant,
  secret: Parameters<typeof registeredOwner>[0],
): boolean {
  const owner = registeredOwner(secret);
  if (owner !== undefined) return owner === assistant.metadata.uid;
  const had = assistant.status?.conditions?.some(
    ({ type, status }) => type === 'DatabaseReady' && status === 'True',
  );
  const id = claimedId(assistant);
  const rivals =
    id === undefined ? [] : context.stores.assistants.by('claim', pair(assistant.spec.capsule, id));
  return had === true && rivals.every(({ metadata }) => metadata.uid === assistant.metadata.uid);
}

async function dropDatabase(
  context: Context,
  capsule: string,
  id: string,
  signal: AbortSignal,
): Promise<{ readonly finding: Finding; readonly cause: unknown } | undefined> {
  const name = principalSecretName(capsule);
  const principal = await readSecret(context, context.names.namespace, name, signal);
  if (!principal) {
    // With the Capsule itself gone nobody can be authorised any more, and nothing is left to wait for.
    if (!context.stores.capsules.get(makeKey(context.names.namespace, capsule))) return undefined;
    const finding = no(
      'PrincipalLost',
      `Secret "${name}" with the Capsule's principal is missing. Put it back from a backup.`,
    );
    return { finding, cause: new Error('a principal is missing') };
  }
  try {
    await context.database.dropApp(capsule, id, principalOf(principal), signal);
    return undefined;
  } catch (error) {
    // Never made, or dropped by an earlier try whose answer was lost.
    if (error instanceof BrokerError && error.failure === 'refused' && error.status === 404) return undefined;
    const finding = brokerFinding(error);
    if (!finding) throw error;
    return { finding, cause: error };
  }
}

function lastFindings(assistant: Assistant): Record<string, Finding> {
  const kept = (assistant.status?.conditions ?? []).filter(
    ({ type }) => type !== 'Ready' && type !== 'Finalized',
  );
  return Object.fromEntries(
    kept.map(({ type, status, reason, message }) => [
      type,
      { status, reason: reason as Finding['reason'], message },
    ]),
  );
}
