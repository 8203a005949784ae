import type { Context } from '../context.ts';
import { CONFIG_MAP, type ConfigMap } from '../kinds.ts';
import { ANNOTATION } from '../names.ts';
import { digestOf } from '../runtime/digest.ts';
import { isAlreadyExists } from '../runtime/errors.ts';
import { makeKey, pathOf } from '../runtime/objects.ts';
import { together } from '../runtime/together.ts';
import { pair } from '../stores.ts';
import { type Document, documentObject, documents, type Workload, workloadNamespace } from './workload.ts';

/** Where `trimConfigMap` leaves the digest of what it took away. */
const CONTENT = 'digest';

/** A manifest may be a megabyte; the store keeps what it says as a digest. */
export function trimConfigMap(configMap: ConfigMap): ConfigMap {
  return configMap.data ? { ...configMap, data: { [CONTENT]: digestOf(configMap.data) } } : configMap;
}

/** Both documents are there and say what their names promise. */
export async function ensureDocuments(
  context: Context,
  workload: Workload,
  signal: AbortSignal,
): Promise<void> {
  const { manifest, genesis } = documents(workload);
  await together([manifest, genesis].map((document) => ensureDocument(context, workload, document, signal)));
}

async function ensureDocument(
  context: Context,
  workload: Workload,
  document: Document,
  signal: AbortSignal,
): Promise<void> {
  const desired = documentObject(workload, document);
  const live = context.stores.configMaps.get(makeKey(workloadNamespace(workload), document.name));
  const said = live?.data?.[CONTENT];
  if (live && said === digestOf({ [document.key]: document.text })) {
    if (live.metadata.annotations?.[ANNOTATION.owner] === workload.assistant.metadata.uid) return;
  }
  // It cannot be changed, only made anew.
  if (live) await context.writer.remove(CONFIG_MAP, live, signal);
  try {
    await context.writer.create(CONFIG_MAP, desired, signal);
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    // Ours with its labels taken off, or somebody else's: neither stays under this name.
    const path = pathOf(CONFIG_MAP, workloadNamespace(workload), document.name);
    const unseen = await context.client.call<ConfigMap>({ method: 'GET', path, signal });
    await context.writer.remove(CONFIG_MAP, unseen, signal);
    throw error;
  }
}

/** Documents of earlier versions go once the pods that mounted them have gone. */
export async function sweepDocuments(
  context: Context,
  workload: Workload,
  signal: AbortSignal,
): Promise<void> {
  const {
    assistant,
    manifest: { platform },
  } = workload;
  const { manifest, genesis } = documents(workload);
  const wanted = new Set([manifest.name, genesis.name]);
  const old = context.stores.configMaps
    .by('assistant', pair(assistant.spec.capsule, platform.id))
    .filter(
      ({ metadata }) =>
        !wanted.has(metadata.name) && metadata.annotations?.[ANNOTATION.owner] === assistant.metadata.uid,
    );
  await together(old.map((configMap) => context.writer.remove(CONFIG_MAP, configMap, signal)));
}
