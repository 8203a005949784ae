import * as kinds from './kinds.ts';
import { LABEL, type SpaceNames } from './names.ts';
import type { ApiClient } from './runtime/client.ts';
import type { Clock } from './runtime/clock.ts';
import type { KubeObject, Resource } from './runtime/kube-object.ts';
import { Recovery } from './runtime/recovery.ts';
import { Reflector } from './runtime/reflector.ts';
import type { Store } from './runtime/store.ts';
import { trimNode } from './sandbox/node.ts';
import { isInPlace, type Stores } from './stores.ts';
import { trimConfigMap, wholeAssistant, wholeCapsule, withoutOwners } from './trim.ts';

export interface WatchOptions {
  readonly client: ApiClient;
  readonly clock: Clock;
  readonly names: SpaceNames;
  readonly stores: Stores;
  readonly onProblem: (kind: string, error: unknown, retryInMs: number) => void;
}

interface Selection<T> {
  readonly namespace?: string;
  readonly labelSelector?: string;
  readonly fieldSelector?: string;
  readonly keeps?: (object: KubeObject) => boolean;
  readonly trim?: (object: T) => T;
  readonly pageSize?: number;
}

/** Small enough that manifests of a megabyte each, as text and as objects, fit in memory beside everything else. */
const LARGE_PAGE = 50;

/** One watch for each kind except Secrets: objects with this Space's label in its own namespaces. */
export function makeReflectors(options: WatchOptions) {
  const { names, stores } = options;
  const ours = {
    labelSelector: `${LABEL.space}=${names.space}`,
    keeps: (object: KubeObject) => isInPlace(names, object),
  };
  const all: Record<string, Reflector<KubeObject>> = {};
  const recovery = new Recovery();

  function watch<T extends KubeObject>(
    resource: Resource,
    store: Store<T>,
    selection: Selection<T>,
  ): Reflector<T> {
    const { trim = (object: T) => object, ...where } = selection;
    const reflector = new Reflector<T>({
      client: options.client,
      clock: options.clock,
      resource,
      store,
      recovery,
      ...where,
      trim: (object) => withoutOwners(resource, trim(object)),
      onProblem: (error, retryInMs) => options.onProblem(resource.kind, error, retryInMs),
    });
    all[resource.kind] = reflector as unknown as Reflector<KubeObject>;
    return reflector;
  }

  watch(kinds.CAPSULE, stores.capsules, { namespace: names.namespace, trim: wholeCapsule });
  watch(kinds.ASSISTANT, stores.assistants, {
    namespace: names.namespace,
    trim: wholeAssistant,
    pageSize: LARGE_PAGE,
  });
  watch(kinds.NAMESPACE, stores.namespaces, ours);
  watch(kinds.DEPLOYMENT, stores.deployments, ours);
  const pods = watch(kinds.POD, stores.pods, ours);
  watch(kinds.SERVICE, stores.services, ours);
  watch(kinds.CONFIG_MAP, stores.configMaps, { ...ours, trim: trimConfigMap, pageSize: LARGE_PAGE });
  watch(kinds.RESOURCE_QUOTA, stores.resourceQuotas, ours);
  watch(kinds.LIMIT_RANGE, stores.limitRanges, ours);
  watch(kinds.NETWORK_POLICY, stores.networkPolicies, ours);
  watch(kinds.ROLE_BINDING, stores.roleBindings, ours);
  if (names.consoleRole !== undefined)
    watch(kinds.ROLE, stores.roles, {
      namespace: names.systemNamespace,
      fieldSelector: `metadata.name=${names.consoleRole}`,
    });
  const nodes = watch(kinds.NODE, stores.nodes, { trim: trimNode });
  const runtimeClasses = watch(kinds.RUNTIME_CLASS, stores.runtimeClasses, {
    fieldSelector: `metadata.name=${names.runtimeClass}`,
  });
  return { all, nodes, runtimeClasses, pods };
}
