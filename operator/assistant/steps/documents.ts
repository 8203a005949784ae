import { yes } from '../../conditions.ts';
import type { Context } from '../../context.ts';
import { CONFIG_MAP, type ConfigMap, SERVICE } from '../../kinds.ts';
import { ANNOTATION } from '../../names.ts';
import { isAlreadyExists } from '../../runtime/errors.ts';
import { makeKey, pathOf } from '../../runtime/kube-object.ts';
import { together } from '../../runtime/together.ts';
import type { Step } from '../../step.ts';
import { pair } from '../../stores.ts';
import { holds } from '../../trim.ts';
import type { RunFacts } from '../facts.ts';
import { type Document, type Workload, workloadMetadata, workloadNamespace } from '../identity.ts';
import { serviceObject } from '../pod-template.ts';

const IN_PLACE = yes('Ready', 'Its documents and its Service are in place.');

/** The ConfigMaps that the pods mount, and the Service of the Assistant; neither depends on another step. */
export async function ensureDocuments(
  context: Context,
  { workload }: RunFacts,
  signal: AbortSignal,
): Promise<Step> {
  const { manifest, genesis } = workload.documents;
  const live = context.stores.services.get(
    makeKey(workloadNamespace(workload), workload.manifest.platform.id),
  );
  await together([
    together([manifest, genesis].map((document) => ensureDocument(context, workload, document, signal))),
    context.writer.apply(SERVICE, serviceObject(workload), live, signal),
  ]);
  return { finding: IN_PLACE };
}

/** Ensures that the ConfigMap exists and has the content that its name promises. */
async function ensureDocument(
  context: Context,
  workload: Workload,
  { name, key, text }: Document,
  signal: AbortSignal,
): Promise<void> {
  const namespace = workloadNamespace(workload);
  const data = { [key]: text };
  const live = context.stores.configMaps.get(makeKey(namespace, name));
  const isOurs = live?.metadata.annotations?.[ANNOTATION.owner] === workload.assistant.metadata.uid;
  if (live && isOurs && holds(live, data)) return;
  // An immutable ConfigMap has to be created again.
  if (live) await context.writer.remove(CONFIG_MAP, live, signal);
  try {
    const metadata = workloadMetadata(workload, name);
    await context.writer.create(CONFIG_MAP, { metadata, immutable: true, data }, signal);
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    // It is an own ConfigMap without its labels, or somebody else's. Neither may keep this name.
    const path = pathOf(CONFIG_MAP, namespace, name);
    const unseen = await context.client.call<ConfigMap>({ method: 'GET', path, signal });
    await context.writer.remove(CONFIG_MAP, unseen, signal);
    throw error;
  }
}

/** Deletes ConfigMaps of earlier versions once no pod mounts them. */
export async function sweepDocuments(
  context: Context,
  { assistant, manifest, documents }: Workload,
  signal: AbortSignal,
): Promise<void> {
  const wanted = new Set([documents.manifest.name, documents.genesis.name]);
  const old = context.stores.configMaps
    .by('assistant', pair(assistant.spec.capsule, manifest.platform.id))
    .filter(
      ({ metadata }) =>
        !wanted.has(metadata.name) && metadata.annotations?.[ANNOTATION.owner] === assistant.metadata.uid,
    );
  await together(old.map((configMap) => context.writer.remove(CONFIG_MAP, configMap, signal)));
}
