import { type Finding, lastFindings, no } from '../conditions.ts';
import type { Context } from '../context.ts';
import { warnOfClocks } from '../grace.ts';
import { ASSISTANT, CAPSULE, type Capsule, NAMESPACE, type Namespace } from '../kinds.ts';
import { readAnew } from '../last-word.ts';
import { ANNOTATION, CAPSULE_FINALIZER, capsuleNamespace } from '../names.ts';
import { tellingRefusal } from '../refusals.ts';
import type { Result } from '../runtime/controller.ts';
import { isNotFound } from '../runtime/errors.ts';
import { removeFinalizer } from '../runtime/finalizer.ts';
import { pathOf } from '../runtime/kube-object.ts';
import { together } from '../runtime/together.ts';
import { ownsNamespace } from './decide.ts';
import { decideFate } from './fate.ts';
import { namespaceObject } from './guardrails.ts';
import { endPrincipal, readBrokerData, type Settled, settle } from './release.ts';
import { reportCapsule } from './status.ts';

/** The time after which the pods of an orphan are usually gone. */
export const ORPHANS_MS = 2_000;

type Act<T> = (context: Context, capsule: Capsule, signal: AbortSignal) => Promise<T>;

/** What Assistants left behind whose finalizer somebody removed. */
export interface Orphans {
  /** Removes everything except the data, which the next Assistant of the id gets; returns whether there was anything. */
  readonly sweep: Act<boolean>;
  /** Removes what does not go with the Capsule's namespace, and waits for no pod; returns what it waits for. */
  readonly clear: Act<{ readonly finding: Finding; readonly cause: unknown } | undefined>;
}

/**
 * Finalizes a Capsule: Assistants (which wait for their pods), databases, objects, namespace, principals, finalizer. It
 * does not wait for the sandbox gate. A broker that is unavailable delays it and is never skipped.
 */
export async function finalizeCapsule(
  context: Context,
  capsule: Capsule,
  orphans: Orphans,
  signal: AbortSignal,
): Promise<Result> {
  if (!capsule.metadata.finalizers?.includes(CAPSULE_FINALIZER)) return {};
  const namespace = capsuleNamespace(context.names.space, capsule.metadata.name);
  const wait = (finding: Finding) => {
    const findings = { Finalized: finding, ...lastFindings(capsule.status?.conditions) };
    return reportCapsule(context, capsule, { namespace, findings }, signal);
  };
  return tellingRefusal(wait, () => takeAway(context, { capsule, orphans, wait }, signal));
}

/** The Capsule that is being finalized. */
interface Finalizing {
  readonly capsule: Capsule;
  readonly orphans: Orphans;
  /** Reports in the status what the deletion waits for. */
  readonly wait: (finding: Finding) => Promise<void>;
}

async function takeAway(
  context: Context,
  { capsule, orphans, wait }: Finalizing,
  signal: AbortSignal,
): Promise<Result> {
  const { stores, writer } = context;
  const asked = await readAnew<Capsule>(context, CAPSULE, capsule.metadata.name, signal);
  // It is gone, which a store may not know yet: another one may have its name, and Assistants, namespace and data by it.
  if (asked.object?.metadata.uid !== capsule.metadata.uid) return {};
  const assistants = stores.assistants.by('capsule', capsule.metadata.name);
  await together(
    assistants
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map((assistant) => writer.remove(ASSISTANT, assistant, signal)),
  );
  const clocks = { ...context.clocks(), server: asked.saidAt };
  const { retain, grace } = decideFate(context, clocks, capsule, asked.object);
  if (grace) {
    warnOfClocks(context, clocks);
    await wait(grace.finding);
    const swept = await orphans.sweep(context, capsule, signal);
    return { requeueAfterMs: swept ? ORPHANS_MS : grace.requeueAfterMs };
  }
  if (assistants.length > 0) {
    await wait(no('AssistantsRemain', 'Its Assistants are being deleted first.'));
    return {};
  }

  const unacknowledged = await orphans.clear(context, capsule, signal);
  if (unacknowledged) {
    await wait(unacknowledged.finding);
    throw unacknowledged.cause;
  }
  const settled: Settled[] = [];
  for (const data of await readBrokerData(context, capsule, signal)) {
    const end = await settle(context, capsule, { ...data, retain }, signal);
    if ('cause' in end) {
      await wait(end.finding);
      throw end.cause;
    }
    settled.push(end);
  }

  const namespace = await leftNamespace(context, capsule, signal);
  if (namespace) {
    const { name, deletionTimestamp } = namespace.metadata;
    if (deletionTimestamp === undefined) await writer.remove(NAMESPACE, namespace, signal);
    await wait(
      no(
        'NamespaceTerminating',
        `Namespace "${name}" is being deleted. If that takes long, its status.conditions say what keeps it.`,
      ),
    );
    return {};
  }

  for (const one of settled) await endPrincipal(context, one, signal);
  context.databaseUsages.forget(capsule.metadata.uid ?? '');
  context.objectUsages.forget(capsule.metadata.uid ?? '');
  context.selections.forget(capsule.metadata.name);
  await removeFinalizer(writer, { resource: CAPSULE, name: CAPSULE_FINALIZER }, capsule, signal);
  context.events.record(CAPSULE, capsule, {
    type: 'Normal',
    reason: 'CapsuleFinalized',
    action: 'Finalize',
    note: noteOf(settled, retain),
  });
  return {};
}

/**
 * Finds the Capsule's namespace by the annotation with its owner. If its labels were removed, the watch no longer sees
 * it, so they are restored: without them the operator may not delete it, and would not notice that it is gone.
 */
async function leftNamespace(
  { client, names, stores, writer }: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<Namespace | undefined> {
  const name = capsuleNamespace(names.space, capsule.metadata.name);
  const known = stores.namespaces.get(name);
  if (known && ownsNamespace(capsule, known)) return known;
  const live = await client
    .call<Namespace>({ method: 'GET', path: pathOf(NAMESPACE, undefined, name), signal })
    .catch((error: unknown) => {
      if (isNotFound(error)) return undefined;
      throw error;
    });
  const { uid, annotations } = live?.metadata ?? {};
  const owner = annotations?.[ANNOTATION.owner];
  if (!live || uid === undefined || owner === undefined || owner !== capsule.metadata.uid) return undefined;
  const desired = namespaceObject(names, capsule);
  await writer.apply(NAMESPACE, { ...desired, metadata: { ...desired.metadata, uid } }, live, signal);
  return live;
}

const WHAT = { DatabaseReady: 'databases', ObjectStoreReady: 'files' } as const;

/** What is kept, and what is dropped although it should have been kept. */
function noteOf(settled: readonly Settled[], retain: boolean): string {
  if (!retain) return 'The Capsule and all its data are removed.';
  const those = (which: Settled['outcome']) =>
    settled.filter(({ outcome }) => outcome === which).map(({ condition }) => WHAT[condition]);
  const [dropped, lost, kept] = [those('dropped'), those('lost'), those('kept')];
  if (dropped.length + lost.length === 0)
    return 'The Capsule is removed; its data and its principals are kept.';
  const tell = (what: readonly string[], before: string, after: string) =>
    what.length === 0 ? [] : [`${before} ${what.join(' and ')} ${after}`];
  return [
    ...tell(dropped, 'Its', 'are dropped: the request to keep them came while they were being dropped.'),
    ...tell(lost, 'Its', 'are no longer accessible: the principal was missing.'),
    ...tell(kept, 'Its', 'are kept.'),
  ].join(' ');
}
