import type { Orphans } from '../capsule/finalize.ts';
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
import type { Blocked } from './data.ts';
import { takeAway } from './finalize.ts';
import { removeEgress } from './steps/egress.ts';

/** Small enough that a page with manifests of a megabyte each fits in memory. */
const PAGE = 50;

/**
 * The labels and annotations of an object that belongs to an Assistant which the store does not know; one object per
 * Assistant.
 */
interface Suspect {
  readonly id: string;
  readonly uid: string;
  readonly resource: Resource;
  readonly object: KubeObject;
}

/**
 * Removes the objects of Assistants whose finalizer was removed by force, and keeps their data for the next Assistant
 * of the id: the absence of an Assistant, even if the API server confirms it, is not an order to drop data. Returns
 * whether there were any.
 */
async function sweep(context: Context, capsule: Capsule, signal: AbortSignal): Promise<boolean> {
  let found = false;
  for (const { id, uid, resource, object } of suspectsOf(context, capsule)) {
    if (!(await isThere(context, resource, object, signal)) || !(await isGone(context, uid, signal)))
      continue;
    found = true;
    context.events.record(CAPSULE, capsule, {
      type: 'Warning',
      reason: 'OrphanTakenAway',
      action: 'Sweep',
      note: `The Assistant with the id "${id}" was removed without its clean-up, since somebody removed its finalizer. Its other objects are removed now; its data is kept for the next Assistant with that id.`,
    });
    await takeAway(context, orphanOf(context, capsule, { id, uid }), async () => {}, signal);
  }
  return found;
}

/**
 * At the end of a Capsule, whose namespace takes everything else away: sealed values of stored inputs are in another one,
 * and policies in the gateway.
 */
async function clear(context: Context, capsule: Capsule, signal: AbortSignal): Promise<Blocked | undefined> {
  for (const suspect of suspectsOf(context, capsule)) {
    const assistant = orphanOf(context, capsule, suspect);
    const unacknowledged = await removeEgress(context, { assistant, id: suspect.id }, signal);
    if (unacknowledged) return unacknowledged;
  }
  return undefined;
}

export const orphans: Orphans = { sweep, clear };

/** The Assistant as it would be finalized; it keeps its data. */
const orphanOf = (
  { names }: Context,
  capsule: Capsule,
  { id, uid }: Pick<Suspect, 'id' | 'uid'>,
): Assistant => ({
  metadata: { name: id, namespace: names.namespace, uid },
  spec: { capsule: capsule.metadata.name, deletionPolicy: 'Retain' } as Assistant['spec'],
  status: { manifest: { id, version: '', digest: '' } },
});

function suspectsOf({ names, stores }: Context, capsule: Capsule): Suspect[] {
  const { name } = capsule.metadata;
  const namespace = capsuleNamespace(names.space, name);
  const known = new Set(stores.assistants.by('capsule', name).map(({ metadata }) => metadata.uid));
  // Those that may run come first: the end of one that no longer does may have to wait for others.
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

/**
 * The store may still show an object that the Assistant's own finalization has just deleted, so the API server is
 * asked.
 */
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

/** Asks the API server for the whole Space, since a store may lack an Assistant that exists. */
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
