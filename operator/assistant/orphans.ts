import type { Context } from '../context.ts';
import {
  ASSISTANT,
  type Assistant,
  CAPSULE,
  type Capsule,
  CONFIG_MAP,
  DEPLOYMENT,
  SERVICE,
} from '../kinds.ts';
import { ANNOTATION, capsuleNamespace, LABEL } from '../names.ts';
import { isNotFound } from '../runtime/errors.ts';
import { type KubeObject, pathOf, type Resource } from '../runtime/kube-object.ts';
import { takeAway } from './finalize.ts';

/** Few enough that manifests of a megabyte each are no burden. */
const PAGE = 50;

/** An object with the labels and annotations of an Assistant that the store does not know, one for each. */
interface Suspect {
  readonly id: string;
  readonly uid: string;
  readonly resource: Resource;
  readonly object: KubeObject;
}

/**
 * Takes away what an Assistant left whose finalizer was taken off by force, and keeps its data for the next of its id:
 * an absence, even one that the API server confirms, is nobody's order to drop anything. Answers whether there was any.
 */
export async function sweepOrphans(
  context: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<boolean> {
  let found = false;
  for (const { id, uid, resource, object } of suspectsOf(context, capsule)) {
    if (!(await isThere(context, resource, object, signal)) || !(await isGone(context, uid, signal)))
      continue;
    found = true;
    const orphan: Assistant = {
      metadata: { name: id, namespace: context.names.namespace, uid },
      spec: { capsule: capsule.metadata.name, deletionPolicy: 'Retain' } as Assistant['spec'],
      status: { manifest: { id, version: '', digest: '' } },
    };
    context.events.record(CAPSULE, capsule, {
      type: 'Warning',
      reason: 'OrphanTakenAway',
      action: 'Sweep',
      note: `The Assistant of the id "${id}" went without cleaning up: somebody took its finalizer off. What it left is taken away; its data is kept for the next Assistant of that id.`,
    });
    await takeAway(context, orphan, async () => {}, signal);
  }
  return found;
}

function suspectsOf({ names, stores }: Context, capsule: Capsule): Suspect[] {
  const { name } = capsule.metadata;
  const namespace = capsuleNamespace(names.space, name);
  const known = new Set(stores.assistants.by('capsule', name).map(({ metadata }) => metadata.uid));
  const suspects = new Map<string, Suspect>();
  for (const [resource, store] of [
    [DEPLOYMENT, stores.deployments],
    [SERVICE, stores.services],
    [CONFIG_MAP, stores.configMaps],
  ] as const) {
    for (const object of store.by('capsule', name)) {
      const { [ANNOTATION.owner]: uid } = object.metadata.annotations ?? {};
      const { [LABEL.assistant]: id } = object.metadata.labels ?? {};
      if (object.metadata.namespace !== namespace || id === undefined || uid === undefined) continue;
      if (!known.has(uid) && !suspects.has(uid)) suspects.set(uid, { id, uid, resource, object });
    }
  }
  return [...suspects.values()];
}

/** What an Assistant's own end took away a moment ago is in the store a little longer. */
async function isThere(
  { client }: Context,
  resource: Resource,
  { metadata: { namespace, name, uid } }: KubeObject,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    const path = pathOf(resource, namespace, name);
    return (await client.call<KubeObject>({ method: 'GET', path, signal })).metadata.uid === uid;
  } catch (error) {
    if (isNotFound(error)) return false;
    throw error;
  }
}

/** Asked of the API server itself, for the whole Space: a store may lack what there is. */
async function isGone({ client, names }: Context, uid: string, signal: AbortSignal): Promise<boolean> {
  let next: string | undefined;
  do {
    const page = await client.call<{
      readonly metadata: { readonly continue?: string };
      readonly items: readonly KubeObject[];
    }>({
      method: 'GET',
      path: pathOf(ASSISTANT, names.namespace),
      query: { limit: String(PAGE), ...(next ? { continue: next } : {}) },
      signal,
    });
    if (page.items.some(({ metadata }) => metadata.uid === uid)) return false;
    next = page.metadata.continue || undefined;
  } while (next);
  return true;
}
