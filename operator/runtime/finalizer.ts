import type { Writer } from './apply.ts';
import type { KubeObject, Resource } from './kube-object.ts';

/** A finalizer, and the kind of the objects that it is for. */
export interface Finalizer {
  readonly resource: Resource;
  readonly name: string;
}

/** Adds a finalizer to the version of the object that was read. After a conflict the next reconcile reads it again. */
export async function addFinalizer(
  writer: Writer,
  { resource, name }: Finalizer,
  object: KubeObject,
  signal?: AbortSignal,
): Promise<void> {
  const { finalizers = [], resourceVersion } = object.metadata;
  if (finalizers.includes(name)) return;
  const metadata = { resourceVersion, finalizers: [...finalizers, name] };
  await writer.merge(resource, object, { metadata }, signal);
}

export async function removeFinalizer(
  writer: Writer,
  { resource, name }: Finalizer,
  object: KubeObject,
  signal?: AbortSignal,
): Promise<void> {
  const { finalizers = [], resourceVersion } = object.metadata;
  if (!finalizers.includes(name)) return;
  const metadata = { resourceVersion, finalizers: finalizers.filter((other) => other !== name) };
  await writer.merge(resource, object, { metadata }, signal);
}
