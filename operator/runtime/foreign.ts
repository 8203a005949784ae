import type { KubeObject } from './kube-object.ts';

/** Who wrote which fields of an object, as the API server keeps it. */
interface FieldOwner {
  readonly manager?: string;
  readonly subresource?: string;
  readonly fieldsV1?: Fields;
}

interface Fields {
  readonly [field: string]: Fields;
}

type Owned<T extends KubeObject = KubeObject> = T & {
  readonly metadata: { readonly managedFields?: readonly FieldOwner[] };
};

/** What others than this manager wrote into the spec itself, in any way but by scaling or with a status. */
export function foreignOwners(object: Owned, manager: string): readonly FieldOwner[] {
  return (object.metadata.managedFields ?? []).filter((owner) => isForeign(owner, manager));
}

/** The owners that stay when those are taken out. */
export function keptOwners(object: Owned, manager: string): readonly FieldOwner[] {
  return (object.metadata.managedFields ?? []).filter((owner) => !isForeign(owner, manager));
}

/** Keeps of all that only what `foreignOwners` tells: owners are about 40 % of an object's bytes. */
export function onlyForeignOwners<T extends KubeObject>(object: Owned<T>, manager: string): T {
  const { managedFields: _, ...metadata } = object.metadata;
  const foreign = foreignOwners(object, manager);
  return { ...object, metadata: foreign.length === 0 ? metadata : { ...metadata, managedFields: foreign } };
}

function isForeign({ manager, subresource, fieldsV1 }: FieldOwner, own: string): boolean {
  if (manager === own || (subresource !== undefined && subresource !== '')) return false;
  const { 'f:template': template, '.': _, ...rest } = fieldsV1?.['f:spec'] ?? {};
  return Object.keys(rest).length > 0 || (template !== undefined && !isOnlyAnnotated(template));
}

/** `kubectl rollout restart` annotates the template, and may. */
function isOnlyAnnotated({ 'f:metadata': metadata = {}, ...rest }: Fields): boolean {
  const { 'f:annotations': _, ...others } = metadata;
  return [rest, others].every((fields) => Object.keys(fields).every((field) => field === '.'));
}
