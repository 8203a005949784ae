import { BrokerError } from '../brokers/client.ts';
import { brokerFinding } from '../brokers/findings.ts';
import { type Finding, no } from '../conditions.ts';
import { type Context, readSecret } from '../context.ts';
import { ASSISTANT, CAPSULE, type Capsule, NAMESPACE, SECRET, type SecretObject } from '../kinds.ts';
import { ANNOTATION, CAPSULE_FINALIZER, capsuleNamespace, LABEL, principalSecretName } from '../names.ts';
import type { Result } from '../runtime/controller.ts';
import { removeFinalizer } from '../runtime/finalizer.ts';
import { principalOf } from './database.ts';
import { ownsNamespace } from './decide.ts';
import { reportCapsule } from './status.ts';

/**
 * The order of a deletion: Assistants (which wait for their pods), databases, namespace, principal, finalizer.
 * It waits for no gate. A broker that is away delays it and is never skipped.
 */
export async function finalizeCapsule(
  context: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<Result> {
  if (!capsule.metadata.finalizers?.includes(CAPSULE_FINALIZER)) return {};
  const { names, stores, writer } = context;
  const name = capsuleNamespace(names.space, capsule.metadata.name);
  const wait = (finding: Finding) =>
    reportCapsule(context, capsule, name, { Finalized: finding, ...lastFindings(capsule) }, signal);

  const assistants = stores.assistants.by('capsule', capsule.metadata.name);
  if (assistants.length > 0) {
    await Promise.all(
      assistants
        .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
        .map((assistant) => writer.remove(ASSISTANT, assistant, signal)),
    );
    await wait(no('AssistantsRemain', 'Its Assistants are being deleted first.'));
    return {};
  }

  const secret = await readSecret(
    context,
    names.namespace,
    principalSecretName(capsule.metadata.name),
    signal,
  );
  const mine = secret?.metadata.annotations?.[ANNOTATION.owner] === capsule.metadata.uid ? secret : undefined;
  const retain = capsule.spec.deletionPolicy === 'Retain';
  if (!retain) {
    const blocked = await releaseDatabases(context, capsule, mine, signal);
    if (blocked) {
      await wait(blocked.finding);
      throw blocked.cause;
    }
  }

  const namespace = stores.namespaces.get(name);
  if (namespace && ownsNamespace(capsule, namespace)) {
    if (namespace.metadata.deletionTimestamp === undefined) await writer.remove(NAMESPACE, namespace, signal);
    await wait(no('NamespaceTerminating', `Namespace "${name}" is being deleted.`));
    return {};
  }

  if (mine && retain && mine.metadata.labels?.[LABEL.retained] !== 'true') {
    await writer.merge(SECRET, mine, { metadata: { labels: { [LABEL.retained]: 'true' } } }, signal);
  }
  if (mine && !retain) await writer.remove(SECRET, mine, signal);
  await removeFinalizer(writer, CAPSULE, capsule, CAPSULE_FINALIZER, signal);
  const note = retain
    ? 'The Capsule is gone; its databases and its principal are kept.'
    : 'Nothing of the Capsule is left.';
  context.events.record(CAPSULE, capsule, {
    type: 'Normal',
    reason: 'CapsuleFinalized',
    action: 'Finalize',
    note,
  });
  return {};
}

interface Blocked {
  readonly finding: Finding;
  readonly cause: unknown;
}

/** What was known before the deletion stays told: that a database was provisioned is needed to the end. */
function lastFindings(capsule: Capsule): Record<string, Finding> {
  const kept = (capsule.status?.conditions ?? []).filter(
    ({ type }) => type !== 'Ready' && type !== 'Finalized',
  );
  return Object.fromEntries(
    kept.map(({ type, status, reason, message }) => [
      type,
      { status, reason: reason as Finding['reason'], message },
    ]),
  );
}

/** Drop, then finalize; what says that it was done before is as good as doing it. */
async function releaseDatabases(
  context: Context,
  capsule: Capsule,
  secret: SecretObject | undefined,
  signal: AbortSignal,
): Promise<Blocked | undefined> {
  const { name } = capsule.metadata;
  const known = capsule.status?.conditions?.some(
    ({ type, status }) => type === 'DatabaseReady' && status === 'True',
  );
  if (!secret && !known) return undefined;
  if (secret?.metadata.annotations?.[ANNOTATION.finalized] === 'true') return undefined;
  try {
    if (secret) await context.database.drop(name, principalOf(secret), signal).catch(ignore(403));
    await context.database.finalize(name, signal).catch(ignore(404));
  } catch (error) {
    const finding = brokerFinding(error);
    if (!finding) throw error;
    context.events.record(CAPSULE, capsule, {
      type: 'Warning',
      reason: 'FinalizationBlocked',
      action: 'Finalize',
      note: finding.message,
    });
    return { finding, cause: error };
  }
  // The namespace may take long to go: what is done with the broker is not done again meanwhile.
  if (secret) {
    await context.writer.merge(
      SECRET,
      secret,
      { metadata: { annotations: { [ANNOTATION.finalized]: 'true' } } },
      signal,
    );
  }
  return undefined;
}

/** A retired principal is refused with 403, and then `finalize` says how things are. */
function ignore(status: number) {
  return (error: unknown) => {
    if (!(error instanceof BrokerError && error.failure === 'refused' && error.status === status))
      throw error;
  };
}
