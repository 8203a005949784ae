import type { Context } from './context.ts';
import { type KubeObject, pathOf, type Resource } from './runtime/kube-object.ts';

/**
 * An object of the release's namespace as the API server itself has it, and not our watch: its deletion policy may say
 * Retain since a moment ago, and a drop cannot be undone.
 */
export async function readAnew<T extends KubeObject>(
  { client, names }: Context,
  resource: Resource,
  name: string,
  signal: AbortSignal,
): Promise<T | undefined> {
  const { items } = await client.call<{ readonly items: readonly T[] }>({
    method: 'GET',
    path: pathOf(resource, names.namespace),
    query: { fieldSelector: `metadata.name=${name}` },
    signal,
  });
  return items[0];
}

/** What was read anew, or the object that we know where it is gone or another was made under its name since. */
export const theSame = <T extends KubeObject>(read: T | undefined, known: T): T =>
  read?.metadata.uid === known.metadata.uid ? (read ?? known) : known;
