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
import { claimedId, ownAddresses, pair, type Stores } from './stores.ts';

export interface Triggers {
  /** Puts every Capsule and Assistant to work again: the gate has changed. */
  readonly everything: (priority: Priority) => void;
}

const COUNT_AFTER_MS = 250;
/** The names of many Capsules that arrive together are written in one update. */
const NAME_AFTER_MS = 100;
/** Components whose Service's address is in the pods of Assistants. */
const ADDRESSED = new Set(['postgres', 'objectstore', CANARY, EGRESS_COMPONENT]);

/** What there is, and what is put to work. */
interface Wiring {
  readonly namespace: string;
  readonly stores: Stores;
  readonly queues: Omit<Queues, 'probes'>;
}

/**
 * Which change puts which key to work. Payloads are not passed on: a reconcile reads the stores. What a list brings is
 * low, what others change is live, and what the operator itself writes is as urgent as the run that wrote it.
 */
export function connectTriggers(namespace: string, stores: Stores, queues: Wiring['queues']): Triggers {
  const wiring: Wiring = { namespace, stores, queues };
  stores.capsules.onChange((change) => onCapsule(wiring, change));
  stores.assistants.onChange((change) => onAssistant(wiring, change));
  for (const store of ownedStores(stores)) store.onChange((change) => onOwned(wiring, change));
  stores.roles.onChange((change) => onRole(wiring, change));
  stores.services.onChange((change) => onService(wiring, change));
  stores.pods.onChange((change) => onGateway(wiring, change));
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
  // One that went frees its id, and its place in the Capsule.
  const id = claimedId(assistant);
  if (id !== undefined) {
    const rivals = stores.assistants.by('claim', pair(assistant.spec.capsule, id));
    addAssistants(wiring, rivals, priority, change.key);
  }
  const capsule = stores.capsules.get(makeKey(namespace, assistant.spec.capsule));
  if (!change.now && capsule?.spec.quota?.assistants !== undefined) {
    const others = stores.assistants.by('capsule', assistant.spec.capsule);
    addAssistants(wiring, others, priority, change.key);
  }
}

/** A Capsule that only counts waits for more to count; one that is going waits for the last of them. */
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
  // Somebody may have taken the labels off: the object as it was still says whose it is.
  for (const object of [change.before, change.now]) {
    const { [LABEL.capsule]: capsule, [LABEL.assistant]: id } = object?.metadata.labels ?? {};
    if (capsule === undefined) continue;
    const owner = makeKey(namespace, capsule);
    if (id === undefined) capsules.add(owner, priority(capsules, owner));
    else
      for (const key of stores.assistants.by('claim', pair(capsule, id)).map(keyOf))
        assistants.add(key, priority(assistants, key));
  }
}

/** What somebody changed is put back, and a Capsule that waited to be named goes on. */
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

/** A replica that starts knows no policy, and one that serves must have them all. */
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

/** The priority of the run that is working on the key. */
const runOf = (queue: Queue, key: Key): Priority => queue.running(key) ?? 'live';

/** The answer to an own write that brings nothing of a user's. */
function isEcho({ before, now, origin }: Change<KubeObject>): boolean {
  return origin === 'own' && before !== undefined && now !== undefined && wishOf(before) === wishOf(now);
}

function wishOf({ metadata }: KubeObject): string {
  return JSON.stringify([metadata.generation, metadata.deletionTimestamp, metadata.annotations]);
}

const nameOf = ({ now, before }: Change<Capsule>): string => (now ?? before)?.metadata.name ?? '';

/** A Capsule's counts are nobody else's business; its spec, its end, its conditions and whether its data is being put back are. */
function concernsAssistants({ before, now }: Change<Capsule>): boolean {
  return !before || !now || gist(before) !== gist(now);
}

function gist({ metadata, status }: Capsule): string {
  const conditions = status?.conditions?.map(({ type, status: value, reason }) => [type, value, reason]);
  const restoring = metadata.annotations?.[ANNOTATION.restoring];
  return JSON.stringify([metadata.generation, metadata.deletionTimestamp, restoring, conditions]);
}

/** A Capsule counts its Assistants, and its deletion waits for them. */
function concernsOthers({ before, now }: Change<Assistant>): boolean {
  return !before || !now || isReady(before) !== isReady(now);
}
