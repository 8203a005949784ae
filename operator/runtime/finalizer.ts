import type { Writer } from './apply.ts';
import type { KubeObject, Resource } from './kube-object.ts';

/** Adds a finalizer to the version of the object that was read. After a conflict the next reconcile reads it again. */
export async function addFinalizer(
  writer: Writer,
  resource: Resource,
  object: KubeObject,
  finalizer: string,
  signal?: AbortSignal,
): Promise<void> {
  const { finalizers = [], resourceVersion } = object.metadata;
  if (finalizers.includes(finalizer)) return;
  await writer.merge(
    resource,
    object,
    { metadata: { resourceVersion, finalizers: [...finalizers, finalizer] } },
    signal,
  );
}

export async function removeFinalizer(
  writer: Writer,
  resource: Resource,
  object: KubeObject,
  finalizer: string,
  signal?: AbortSignal,
): Promise<void> {
  const { finalizers = [], resourceVersion } = object.metadata;
  if (!finalizers.includes(finalizer)) return;
  const left = finalizers.filter((name) => name !== finalizer);
  await writer.merge(resource, object, { metadata: { resourceVersion, finalizers: left } }, signal);
}
