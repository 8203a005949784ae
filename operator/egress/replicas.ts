import type { Pod } from '../kinds.ts';
import { LABEL, type SpaceNames } from '../names.ts';
import type { Stores } from '../stores.ts';
import type { Replica } from './replica.ts';

export const EGRESS_COMPONENT = 'egress';

/** The running replicas of the gateway, according to the watch. */
export function replicasIn(stores: Pick<Stores, 'pods'>, names: SpaceNames): readonly Replica[] {
  return stores.pods
    .by('component', EGRESS_COMPONENT)
    .filter(({ metadata }) => metadata.namespace === names.servicesNamespace)
    .flatMap((pod) => replicaOf(pod) ?? []);
}

/**
 * The replica in this pod; undefined if the pod has no address yet, has ended or does not listen yet. A pod need not be
 * Ready, since it becomes Ready only after the operator has sent it the policies.
 */
export function replicaOf(pod: Pod): Replica | undefined {
  const address = pod.status?.podIP;
  if (address === undefined || pod.status?.phase !== 'Running') return undefined;
  if (pod.status.containerStatuses?.some(({ started }) => started === false)) return undefined;
  const ready = pod.status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True');
  // The deletion of a pod is dated to the end of its grace period, after which its kubelet has killed it.
  const { deletionTimestamp: end } = pod.metadata;
  const start = pod.status.containerStatuses?.map(({ containerID = '' }) => containerID).join();
  return {
    key: `${pod.metadata.uid}/${start}`,
    address,
    pod: pod.metadata.name,
    serving: ready === true && end === undefined,
    lost: end !== undefined && Date.parse(end) < Date.now(),
  };
}

export const isGateway = ({ metadata }: Pod): boolean =>
  metadata.labels?.[LABEL.component] === EGRESS_COMPONENT;
