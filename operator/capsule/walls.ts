import { type Finding, no } from '../conditions.ts';
import type { Context } from '../context.ts';
import { type Capsule, LIMIT_RANGE, NAMESPACE, NETWORK_POLICY, RESOURCE_QUOTA } from '../kinds.ts';
import type { Desired } from '../runtime/apply.ts';
import { isNotFound } from '../runtime/errors.ts';
import { type KubeObject, makeKey, pathOf, type Resource } from '../runtime/kube-object.ts';
import type { Store } from '../runtime/store.ts';
import { together } from '../runtime/together.ts';
import {
  assistantsPolicyObject,
  defaultDenyObject,
  limitRangeObject,
  namespaceObject,
  quotaObject,
} from './guardrails.ts';

/**
 * Asks the API server itself whether all guardrails of a Capsule's namespace are in place, since stores and conditions
 * may lag behind, and far behind if a watch fails. Returns a finding about a missing one, or undefined. The objects
 * that were read go into the stores, which makes the Capsule's controller repair them.
 */
export async function findBreach(
  context: Context,
  capsule: Capsule,
  signal: AbortSignal,
): Promise<Finding | undefined> {
  const { names, stores } = context;
  const broken = async <T extends KubeObject>(resource: Resource, store: Store<T>, wish: Desired) =>
    (await isCurrent(context, { resource, store, wish }, signal))
      ? []
      : [`${resource.kind} "${wish.metadata.name}"`];
  const [missing] = (
    await together([
      broken(NAMESPACE, stores.namespaces, namespaceObject(names, capsule)),
      broken(NETWORK_POLICY, stores.networkPolicies, defaultDenyObject(names, capsule)),
      broken(NETWORK_POLICY, stores.networkPolicies, assistantsPolicyObject(names, capsule)),
      broken(RESOURCE_QUOTA, stores.resourceQuotas, quotaObject(names, capsule)),
      broken(LIMIT_RANGE, stores.limitRanges, limitRangeObject(names, capsule)),
    ])
  ).flat();
  if (missing === undefined) return undefined;
  return no(
    'GuardrailsMissing',
    `${missing} of the Capsule is missing or was changed, so nothing new is scheduled until it is restored. The Capsule's conditions say what prevents that.`,
  );
}

/** A guardrail as it must be, and the store for what is there. */
interface Guardrail<T extends KubeObject> {
  readonly resource: Resource;
  readonly store: Store<T>;
  readonly wish: Desired;
}

async function isCurrent<T extends KubeObject>(
  { client, writer }: Context,
  { resource, store, wish }: Guardrail<T>,
  signal: AbortSignal,
): Promise<boolean> {
  const { name, namespace } = wish.metadata;
  try {
    const path = pathOf(resource, namespace, name);
    const live = await client.call<T>({ method: 'GET', path, signal });
    store.set(live);
    return live.metadata.deletionTimestamp === undefined && writer.isApplied(resource, wish, live);
  } catch (error) {
    if (!isNotFound(error)) throw error;
    store.delete(makeKey(namespace, name));
    return false;
  }
}
