import * as kinds from './kinds.ts';
import type { KubeObject, Resource } from './runtime/kube-object.ts';
import type { Store } from './runtime/store.ts';
import type { Stores } from './stores.ts';
import { trimConfigMap, wholeAssistant, wholeCapsule, withoutOwners } from './trim.ts';

/** Puts the object that a write returned into the store of its kind, ahead of the watch. Secrets have no store. */
export function cacheWriteResults(stores: Stores): (resource: Resource, object: KubeObject) => void {
  const keep = <T extends KubeObject>(store: Store<T>, trim = (object: T) => object) => {
    return (resource: Resource, object: KubeObject) =>
      store.set(withoutOwners(resource, trim(object as T)), 'own');
  };
  const keepers = new Map<string, (resource: Resource, object: KubeObject) => void>([
    [kinds.CAPSULE.kind, keep(stores.capsules, wholeCapsule)],
    [kinds.ASSISTANT.kind, keep(stores.assistants, wholeAssistant)],
    [kinds.NAMESPACE.kind, keep(stores.namespaces)],
    [kinds.DEPLOYMENT.kind, keep(stores.deployments)],
    [kinds.POD.kind, keep(stores.pods)],
    [kinds.SERVICE.kind, keep(stores.services)],
    [kinds.CONFIG_MAP.kind, keep(stores.configMaps, trimConfigMap)],
    [kinds.RESOURCE_QUOTA.kind, keep(stores.resourceQuotas)],
    [kinds.LIMIT_RANGE.kind, keep(stores.limitRanges)],
    [kinds.NETWORK_POLICY.kind, keep(stores.networkPolicies)],
    [kinds.ROLE.kind, keep(stores.roles)],
    [kinds.ROLE_BINDING.kind, keep(stores.roleBindings)],
  ]);
  return (resource, object) => keepers.get(resource.kind)?.(resource, object);
}
