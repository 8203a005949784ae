import type { Context } from './context.ts';
import type { Finalizer } from './runtime/finalizer.ts';
import { type KubeObject, pathOf, type Resource } from './runtime/kube-object.ts';

/** What the API server has answered, and when by its own clock. */
export interface LastWord<T> {
  /** Undefined if there is none. */
  readonly object: T | undefined;
  readonly saidAt: number | undefined;
}

/**
 * Reads an object of the release's namespace from the API server and not from a store: its deletion policy may have
 * changed to Retain a moment ago, and a drop cannot be undone.
 */
export async function readAnew<T extends KubeObject>(
  { client, names }: Context,
  resource: Resource,
  name: string,
  signal: AbortSignal,
): Promise<LastWord<T>> {
  let saidAt: number | undefined;
  const { items } = await client.call<{ readonly items: readonly T[] }>({
    method: 'GET',
    path: pathOf(resource, names.namespace),
    query: { fieldSelector: `metadata.name=${name}` },
    signal,
    onServerTime: (ms) => {
      saidAt = ms;
    },
  });
  return { object: items[0], saidAt };
}

/** The object that was just read; or the known one, if the read found none, or another one of that name. */
export const theSame = <T extends KubeObject>(read: T | undefined, known: T): T =>
  read?.metadata.uid === known.metadata.uid ? (read ?? known) : known;

/**
 * Asks the API server before the first thing is made for an object, since a store may lag behind by more than a deletion
 * takes: what is made for one that is gone stands in the way of the next one of its name. A reconcile that has just added
 * the finalizer need not ask.
 */
export async function requireAlive(
  context: Context,
  { resource, name: finalizer }: Finalizer,
  { metadata: { name, uid, finalizers } }: KubeObject,
  signal: AbortSignal,
): Promise<void> {
  if (!finalizers?.includes(finalizer)) return;
  const { metadata } = (await readAnew(context, resource, name, signal)).object ?? {};
  if (metadata?.uid === uid && metadata?.deletionTimestamp === undefined) return;
  throw new Error(`${resource.kind} "${name}" is gone or being deleted, so nothing is made for it`);
}
