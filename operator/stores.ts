import type {
  Assistant,
  Capsule,
  ConfigMap,
  Deployment,
  LimitRange,
  Namespace,
  NetworkPolicy,
  Node,
  Pod,
  ResourceQuota,
  Role,
  RoleBinding,
  RuntimeClass,
  Service,
} from './kinds.ts';
import { capsuleNamespace, LABEL, type SpaceNames } from './names.ts';
import type { KubeObject } from './runtime/kube-object.ts';
import { Store } from './runtime/store.ts';
import { isOutside } from './sandbox/attester.ts';
import { probedNode } from './sandbox/probe.ts';

/** Two ids as one index value; neither contains a slash. */
export const pair = (capsule: string, id: string) => `${capsule}/${id}`;

const label = (object: KubeObject, name: string): string | undefined => object.metadata.labels?.[name];

function byCapsule(object: KubeObject): string[] {
  const capsule = label(object, LABEL.capsule);
  return capsule === undefined ? [] : [capsule];
}

function byAssistant(object: KubeObject): string[] {
  const [capsule, id] = [label(object, LABEL.capsule), label(object, LABEL.assistant)];
  return capsule === undefined || id === undefined ? [] : [pair(capsule, id)];
}

function byComponent(object: KubeObject): string[] {
  const component = label(object, LABEL.component);
  return component === undefined ? [] : [component];
}

function byProbedNode(pod: Pod): string[] {
  const node = probedNode(pod);
  return node === undefined ? [] : [node];
}

/** The node of an Assistant's pod that was found outside the sandbox, as an index. */
function byNodeOutside(pod: Pod): string[] {
  const node = pod.spec?.nodeName;
  return node !== undefined && isOutside(pod) ? [node] : [];
}

/** The id in an Assistant's manifest, whether the manifest is valid or not. */
export function claimedId(assistant: Assistant): string | undefined {
  const { manifest } = assistant.spec;
  if (typeof manifest !== 'object' || manifest === null) return undefined;
  const { platform } = manifest as { platform?: unknown };
  if (typeof platform !== 'object' || platform === null) return undefined;
  const { id } = platform as { id?: unknown };
  return typeof id === 'string' ? id : undefined;
}

/**
 * The id of an Assistant. It never changes: while another one in the manifest is refused, all that belongs to the
 * Assistant has the one in its status.
 */
export const idOf = (assistant: Assistant): string | undefined =>
  assistant.status?.manifest?.id ?? claimedId(assistant);

function byId(assistant: Assistant): string[] {
  const id = idOf(assistant);
  return id === undefined ? [] : [pair(assistant.spec.capsule, id)];
}

export function makeStores() {
  return {
    capsules: new Store<Capsule>(),
    assistants: new Store<Assistant>({
      capsule: (assistant) => [assistant.spec.capsule],
      id: byId,
    }),
    namespaces: new Store<Namespace>({ capsule: byCapsule }),
    nodes: new Store<Node>(),
    runtimeClasses: new Store<RuntimeClass>(),
    deployments: new Store<Deployment>({ capsule: byCapsule, assistant: byAssistant }),
    pods: new Store<Pod>({
      assistant: byAssistant,
      component: byComponent,
      probe: byProbedNode,
      outside: byNodeOutside,
    }),
    services: new Store<Service>({ capsule: byCapsule, assistant: byAssistant, component: byComponent }),
    configMaps: new Store<ConfigMap>({ capsule: byCapsule, assistant: byAssistant }),
    resourceQuotas: new Store<ResourceQuota>(),
    limitRanges: new Store<LimitRange>(),
    networkPolicies: new Store<NetworkPolicy>(),
    roles: new Store<Role>(),
    roleBindings: new Store<RoleBinding>(),
  };
}

export type Stores = ReturnType<typeof makeStores>;

/**
 * Whether an object is in the namespace that its labels imply. Watches select by labels in all namespaces, and anybody
 * may set these labels in a namespace of their own.
 */
export function isInPlace(
  { space, systemNamespace, servicesNamespace }: SpaceNames,
  { metadata: { namespace, labels } }: KubeObject,
): boolean {
  if (namespace === undefined || namespace === systemNamespace || namespace === servicesNamespace)
    return true;
  const capsule = labels?.[LABEL.capsule];
  return capsule !== undefined && namespace === capsuleNamespace(space, capsule);
}

/** The addresses of a component's Service, one of each family. */
export function addressesOf(
  names: SpaceNames,
  services: Stores['services'],
  component: string,
): readonly string[] {
  if (component === 'postgres' && names.databaseServer) return names.databaseServer.addresses;
  const ofSpace = services
    .by('component', component)
    .filter(
      ({ metadata }) =>
        metadata.namespace === names.servicesNamespace && metadata.labels?.[LABEL.space] === names.space,
    );
  // A headless Service of the same component has no address of its own.
  return ofSpace.map(ownAddresses).find((addresses) => addresses.length > 0) ?? [];
}

/** One address of each family; none for a headless Service. */
export function ownAddresses({ spec }: Service): readonly string[] {
  const { clusterIP, clusterIPs = clusterIP === undefined ? [] : [clusterIP] } = spec ?? {};
  return clusterIPs.filter((address) => address !== '' && address !== 'None');
}
