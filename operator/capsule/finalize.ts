import { type Finding, lastFindings, no } from '../conditions.ts';
import type { Context } from '../context.ts';
import { ASSISTANT, CAPSULE, type Capsule, NAMESPACE, SECRET } from '../kinds.ts';
import { readAnew } from '../last-word.ts';
import { CAPSULE_FINALIZER, capsuleNamespace, LABEL } from '../names.ts';
import { tellingRefusal } from '../refusals.ts';
import type { Result } from '../runtime/controller.ts';
import { removeFinalizer } from '../runtime/finalizer.ts';
import { together } from '../runtime/together.ts';
import { ownsNamespace } from './decide.ts';
import { decideFate } from './fate.ts';
import { readHoldings, release } from './release.ts';
import { reportCapsule } from './status.ts';

/**
 * The order of a deletion: Assistants (which wait for their pods), databases, objects, namespace, principals,
 * finalizer.
 * It waits for no gate. A broker that is away delays it and is never skipped.
 */
export async function finalizeCapsule(
  context: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<Result> {
  if (!capsule.metadata.finalizers?.includes(CAPSULE_FINALIZER)) return {};
  const name = capsuleNamespace(context.names.space, capsule.metadata.name);
  const wait = (finding: Finding) =>
    reportCapsule(
      context,
      capsule,
      name,
      { Finalized: finding, ...lastFindings(capsule.status?.conditions) },
      signal,
    );
  return tellingRefusal(wait, () => takeAway(context, capsule, name, wait, signal));
}

async function takeAway(
  context: Context,
  capsule: Capsule,
  name: string,
  wait: (finding: Finding) => Promise<void>,
  signal: AbortSignal,
): Promise<Result> {
  const { stores, writer } = context;
  const assistants = stores.assistants.by('capsule', capsule.metadata.name);
  await together(
    assistants
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map((assistant) => writer.remove(ASSISTANT, assistant, signal)),
  );
  const asked = await readAnew<Capsule>(context, CAPSULE, capsule.metadata.name, signal);
  const { retain, grace } = decideFate(context, capsule, asked);
  if (grace) {
    await wait(grace.finding);
    return { requeueAfterMs: grace.requeueAfterMs };
  }
  if (assistants.length > 0) {
    await wait(no('AssistantsRemain', 'Its Assistants are being deleted first.'));
    return {};
  }

  const holdings = await readHoldings(context, capsule, signal);
  for (const holding of retain ? [] : holdings) {
    const blocked = await release(context, capsule, holding, signal);
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

  for (const { secret } of holdings) {
    if (secret && retain && secret.metadata.labels?.[LABEL.retained] !== 'true')
      await writer.merge(SECRET, secret, { metadata: { labels: { [LABEL.retained]: 'true' } } }, signal);
    if (secret && !retain) await writer.remove(SECRET, secret, signal);
  }
  context.databaseUsages.forget(capsule.metadata.uid ?? '');
  context.objectUsages.forget(capsule.metadata.uid ?? '');
  context.selections.forget(capsule.metadata.name);
  await removeFinalizer(writer, CAPSULE, capsule, CAPSULE_FINALIZER, signal);
  const note = retain
    ? 'The Capsule is gone; its data and its principals are kept.'
    : 'Nothing of the Capsule is left.';
  context.events.record(CAPSULE, capsule, {
    type: 'Normal',
    reason: 'CapsuleFinalized',
    action: 'Finalize',
    note,
  });
  return {};
}
