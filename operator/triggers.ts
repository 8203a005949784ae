import { addressesOfPods } from './assistant/pods.ts';
import { readableIn } from './capsule/console-role.ts';
import { isReady } from './capsule/status.ts';
import type { Queues } from './controllers.ts';
import { EGRESS_COMPONENT, isGateway, replicaOf } from './egress/replicas.ts';
import type { Assistant, Capsule, Pod, Role, Service } from './kinds.ts';
import { ANNOTATION, LABEL } from './names.ts';
import { type Key, type KubeObject, keyOf, makeKey } from './runtime/kube-object.ts';
import type { Priority, Queue } from './runtime/queue.ts';
import type { Change, Store } from './runtime/store.ts';
import { CANARY } from './sandbox/network.ts';
import { idOf, ownAddresses, pair, type Stores } from './stores.ts';

export interface Triggers {
  /** Adds every Capsule and Assistant to the queues, since the gate has changed. */
  readonly everything: (priority: Priority) => void;
}

const COUNT_AFTER_MS = 250;
/** Milliseconds in which the names of new Capsules are collected for one update of the Role. */
const NAME_AFTER_MS = 100;
/** Components with a Service whose address is in the pods of Assistants. */
const ADDRESSED = new Set(['postgres', 'objectstore', CANARY, EGRESS_COMPONENT]);

/** The stores that change and the queues that get keys. */
interface Wiring {
  readonly namespace: string;
  readonly stores: Stores;
  readonly queues: Omit<Queues, 'probes'>;
}

/**
 * Connects the stores to the queues. Only keys are passed on, since a reconcile reads the stores. Keys from a list have
 * low priority, changes by others are live, and the operator's own writes have the priority of the reconcile that wrote
 * them.
 */
export function connectTriggers(namespace: string, stores: Stores, queues: Wiring['queues']): Triggers {
  const wiring: Wiring = { namespace, stores, queues };
  stores.capsules.onChange((change) => onCapsule(wiring, change));
  stores.assistants.onChange((change) => onAssistant(wiring, change));
  for (const store of ownedStores(stores)) store.onChange((change) => onOwned(wiring, change));
  stores.roles.onChange((change) => onRole(wiring, change));
  stores.services.onChange((change) => onService(wiring, change));
  stores.pods.onChange((change) => onGateway(wiring, change));
  stores.pods.onChange((change) => onAddress(wiring, change));
  return {
    everything(priority) {
      for (const capsule of stores.capsules.list()) queues.capsules.add(keyOf(capsule), priority);
      addAssistants(wiring, stores.assistants.list(), priority);
    },
  };
}

function onCapsule(wiring: Wiring, change: Change<Capsule>): void {
  const { stores, queues } = wiring;
  const priority = isEcho(change) ? runOf(queues.capsules, change.key) : priorityOf(change);
  queues.capsules.add(change.key, priority);
  for (const role of stores.roles.list()) queues.roles.addAfter(keyOf(role), NAME_AFTER_MS, priority);
  if (concernsAssistants(change))
    addAssistants(wiring, stores.assistants.by('capsule', nameOf(change)), priority);
}

function onAssistant(wiring: Wiring, change: Change<Assistant>): void {
  const { namespace, stores, queues } = wiring;
  const priority = isEcho(change) ? runOf(queues.assistants, change.key) : priorityOf(change);
  queues.assistants.add(change.key, priority);
  const assistant = change.now ?? change.before;
  if (!assistant || !concernsOthers(change)) return;
  countAssistants(wiring, assistant.spec.capsule, priority);
  if (change.before && change.now) return;
  // A deleted Assistant frees its id, and its place in the Capsule's quota.
  const id = idOf(assistant);
  if (id !== undefined) {
    const rivals = stores.assistants.by('id', pair(assistant.spec.capsule, id));
    addAssistants(wiring, rivals, priority, change.key);
  }
  const capsule = stores.capsules.get(makeKey(namespace, assistant.spec.capsule));
  if (!change.now && capsule?.spec.quota?.assistants !== undefined) {
    const others = stores.assistants.by('capsule', assistant.spec.capsule);
    addAssistants(wiring, others, priority, change.key);
  }
}

/**
 * Adds the Capsule, which counts its Assistants: after a while, so that several changes are counted together, or at
 * once if it is being deleted and waits for the last of them.
 */
function countAssistants({ namespace, stores, queues }: Wiring, name: string, priority: Priority): void {
  const going = stores.capsules.get(makeKey(namespace, name))?.metadata.deletionTimestamp !== undefined;
  queues.capsules.addAfter(makeKey(namespace, name), going ? 0 : COUNT_AFTER_MS, priority);
}

const ownedStores = (stores: Stores) =>
  [
    stores.namespaces,
    stores.deployments,
    stores.pods,
    stores.services,
    stores.configMaps,
    stores.resourceQuotas,
    stores.limitRanges,
    stores.networkPolicies,
    stores.roleBindings,
  ] as readonly Store<KubeObject>[];

function onOwned({ namespace, stores, queues }: Wiring, change: Change<KubeObject>): void {
  const { capsules, assistants } = queues;
  const priority = (queue: Queue, key: Key) =>
    change.origin === 'own' ? runOf(queue, key) : priorityOf(change);
  // Somebody may have removed the labels, so the owner is read from the object before the change, too.
  for (const object of [change.before, change.now]) {
    const { [LABEL.capsule]: capsule, [LABEL.assistant]: id } = object?.metadata.labels ?? {};
    if (capsule === undefined) continue;
    const owner = makeKey(namespace, capsule);
    if (id === undefined) capsules.add(owner, priority(capsules, owner));
    else
      for (const key of stores.assistants.by('id', pair(capsule, id)).map(keyOf))
        assistants.add(key, priority(assistants, key));
  }
}

/** Restores a Role that somebody changed, and continues Capsules that waited to be named in it. */
function onRole({ stores, queues }: Wiring, change: Change<Role>): void {
  if (change.origin !== 'own') queues.roles.add(change.key, priorityOf(change));
  const [wasReadable, isReadable] = [readableIn(change.before), readableIn(change.now)];
  for (const capsule of stores.capsules.list())
    if (isReadable(capsule) && !wasReadable(capsule))
      queues.capsules.add(keyOf(capsule), runOf(queues.roles, change.key));
}

function onService(wiring: Wiring, change: Change<Service>): void {
  const component = (change.now ?? change.before)?.metadata.labels?.[LABEL.component];
  const [before, now] = [change.before, change.now].map((one) => one && ownAddresses(one).join());
  if (component !== undefined && ADDRESSED.has(component) && before !== now)
    addAssistants(wiring, wiring.stores.assistants.list(), priorityOf(change));
}

/** The gateway knows pods by their addresses. */
function onAddress({ stores, queues }: Wiring, { before, now }: Change<Pod>): void {
  for (const pod of [before, now]) {
    const { [LABEL.capsule]: capsule, [LABEL.assistant]: id } = pod?.metadata.labels ?? {};
    if (capsule === undefined || id === undefined || placeOf(before) === placeOf(now)) continue;
    for (const assistant of stores.assistants.by('id', pair(capsule, id)))
      queues.addresses.add(keyOf(assistant), 'live');
  }
}

/** Whose pod it is, and where. */
const placeOf = (pod: Pod | undefined): string =>
  JSON.stringify(
    pod && [pod.metadata.labels, pod.metadata.annotations?.[ANNOTATION.owner], addressesOfPods([pod])],
  );

/** A replica that has started has no policy, and one that serves must have all of them. */
function onGateway(wiring: Wiring, change: Change<Pod>): void {
  const pod = change.now ?? change.before;
  if (!pod || !isGateway(pod)) return;
  const [before, now] = [change.before, change.now].map((one) => JSON.stringify(one && replicaOf(one)));
  if (before === now) return;
  wiring.queues.gateways.add(change.key, priorityOf(change));
  addAssistants(wiring, wiring.stores.assistants.list(), priorityOf(change));
}

function addAssistants(
  { queues }: Wiring,
  assistants: readonly Assistant[],
  priority: Priority,
  but?: Key,
): void {
  for (const key of assistants.map(keyOf)) if (key !== but) queues.assistants.add(key, priority);
}

const priorityOf = (change: Change<KubeObject>): Priority => (change.origin === 'list' ? 'low' : 'live');

/** The priority of the reconcile that is working on the key. */
const runOf = (queue: Queue, key: Key): Priority => queue.running(key) ?? 'live';

/** Whether the change is the answer to an own write and contains nothing that a user changed. */
function isEcho({ before, now, origin }: Change<KubeObject>): boolean {
  return origin === 'own' && before !== undefined && now !== undefined && wishOf(before) === wishOf(now);
}

function wishOf({ metadata }: KubeObject): string {
  return JSON.stringify([metadata.generation, metadata.deletionTimestamp, metadata.annotations]);
}

const nameOf = ({ now, before }: Change<Capsule>): string => (now ?? before)?.metadata.name ?? '';

/**
 * Whether a change of a Capsule concerns its Assistants: its spec, deletion, conditions or restore changed, and not
 * only its counts.
 */
function concernsAssistants({ before, now }: Change<Capsule>): boolean {
  return !before || !now || gist(before) !== gist(now);
}

function gist({ metadata, status }: Capsule): string {
  const conditions = status?.conditions?.map(({ type, status: value, reason }) => [type, value, reason]);
  const restoring = metadata.annotations?.[ANNOTATION.restoring];
  return JSON.stringify([metadata.generation, metadata.deletionTimestamp, restoring, conditions]);
}

/** Whether a change of an Assistant concerns its Capsule, which counts Assistants and waits for their deletion. */
function concernsOthers({ before, now }: Change<Assistant>): boolean {
  return !before || !now || isReady(before) !== isReady(now);
}
