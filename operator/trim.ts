import {
  type Assistant,
  type Capsule,
  type ConfigMap,
  DEPLOYMENT,
  LIMIT_RANGE,
  NETWORK_POLICY,
  RESOURCE_QUOTA,
  SERVICE,
} from './kinds.ts';
import { FIELD_MANAGER } from './names.ts';
import { digestOf } from './runtime/digest.ts';
import { onlyForeignOwners } from './runtime/foreign.ts';
import type { KubeObject, Resource } from './runtime/kube-object.ts';

/** What stores keep of objects: only fields that somebody reads, in the form that the types promise. */

/** Kinds whose whole spec is the operator's. */
const OWN_SPEC = new Set(
  [DEPLOYMENT, SERVICE, RESOURCE_QUOTA, LIMIT_RANGE, NETWORK_POLICY].map(({ kind }) => kind),
);

/** Without the owners of fields, but for others that wrote into a spec of the operator's. */
export function withoutOwners<T extends KubeObject>({ kind }: Resource, object: T): T {
  if (OWN_SPEC.has(kind)) return onlyForeignOwners(object, FIELD_MANAGER);
  const { managedFields: _, ...metadata } = object.metadata as T['metadata'] & { managedFields?: unknown };
  return { ...object, metadata };
}

/**
 * Completes a Capsule that was stored under another schema. It may lack any field, and must not stop the watch of all
 * others.
 */
export function wholeCapsule(capsule: Capsule): Capsule {
  return { ...capsule, spec: asObject(capsule.spec) };
}

/** An Assistant stays in its Capsule: all that belongs to it is there, whatever its spec says by now. */
export function wholeAssistant(assistant: Assistant): Assistant {
  const spec = asObject(assistant.spec);
  const named = typeof spec.capsule === 'string' ? spec.capsule : '';
  const { capsule = named } = assistant.status ?? {};
  const moved = capsule === named ? {} : { movedTo: named };
  return { ...assistant, spec: { ...spec, capsule }, ...moved };
}

function asObject<T>(value: T): T {
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? value : ({} as T);
}

/** The key under which `trimConfigMap` leaves the digest of the removed content. */
const CONTENT = 'digest';

/** A manifest may be a megabyte, so the store keeps only a digest of it. */
export function trimConfigMap(configMap: ConfigMap): ConfigMap {
  return configMap.data ? { ...configMap, data: { [CONTENT]: digestOf(configMap.data) } } : configMap;
}

/** Whether a ConfigMap, of which the store has the digest, contained exactly this. */
export function holds(trimmed: ConfigMap, data: Readonly<Record<string, string>>): boolean {
  return trimmed.data?.[CONTENT] === digestOf(data);
}
