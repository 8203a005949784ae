import type { Assistant, Capsule, ConfigMap } from './kinds.ts';
import { digestOf } from './runtime/digest.ts';
import type { KubeObject } from './runtime/kube-object.ts';

/** What stores keep of objects: nothing that nobody reads, and nothing that the readers' types forbid. */

/** They are about 40 % of an object's bytes, and nobody here reads them. */
export function withoutManagedFields<T extends KubeObject>(object: T): T {
  const { managedFields: _, ...metadata } = object.metadata as T['metadata'] & { managedFields?: unknown };
  return { ...object, metadata };
}

/** A Capsule that was stored under another schema may lack any field, and must not stop the watch of all others. */
export function wholeCapsule(capsule: Capsule): Capsule {
  return { ...capsule, spec: asObject(capsule.spec) };
}

export function wholeAssistant(assistant: Assistant): Assistant {
  const spec = asObject(assistant.spec);
  return { ...assistant, spec: { ...spec, capsule: typeof spec.capsule === 'string' ? spec.capsule : '' } };
}

function asObject<T>(value: T): T {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : ({} as T);
}

/** Where `trimConfigMap` leaves the digest of what it took away. */
const CONTENT = 'digest';

/** A manifest may be a megabyte; the store keeps what it says as a digest. */
export function trimConfigMap(configMap: ConfigMap): ConfigMap {
  return configMap.data ? { ...configMap, data: { [CONTENT]: digestOf(configMap.data) } } : configMap;
}

/** Whether a ConfigMap of the store held exactly this. */
export function holds(trimmed: ConfigMap, data: Readonly<Record<string, string>>): boolean {
  return trimmed.data?.[CONTENT] === digestOf(data);
}
