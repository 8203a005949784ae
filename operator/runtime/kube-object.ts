/** The metadata of every Kubernetes object, as on the wire (times are strings). */
interface ObjectMeta {
  readonly name: string;
  readonly namespace?: string;
  readonly uid?: string;
  readonly resourceVersion?: string;
  readonly generation?: number;
  readonly creationTimestamp?: string;
  readonly deletionTimestamp?: string;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly finalizers?: readonly string[];
}

export interface KubeObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: ObjectMeta;
}

/** The API group, version and plural that a kind is served under. */
export interface Resource {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly kind: string;
  readonly namespaced: boolean;
}

/** `namespace/name`, or the name of an object without a namespace; queues and stores use it. */
export type Key = string;

export function keyOf(object: KubeObject): Key {
  return makeKey(object.metadata.namespace, object.metadata.name);
}

export function makeKey(namespace: string | undefined, name: string): Key {
  return namespace === undefined ? name : `${namespace}/${name}`;
}

export function apiVersionOf(resource: Resource): string {
  return resource.group === '' ? resource.version : `${resource.group}/${resource.version}`;
}

/** The path of a collection, or of one object, or of one of its subresources. */
export function pathOf(resource: Resource, namespace?: string, name?: string, subresource?: string): string {
  const root =
    resource.group === '' ? `/api/${resource.version}` : `/apis/${resource.group}/${resource.version}`;
  const scope = namespace === undefined || !resource.namespaced ? '' : `/namespaces/${namespace}`;
  const tail = [name, subresource].filter((part) => part !== undefined).map(encodeURIComponent);
  return [`${root}${scope}/${resource.plural}`, ...tail].join('/');
}
