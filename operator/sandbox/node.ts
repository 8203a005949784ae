import type { Node, RuntimeClass, Toleration } from '../kinds.ts';

/** Whether a pod of the class could be scheduled on the node. */
export function canRun(node: Node, runtimeClass: RuntimeClass): boolean {
  return isSelected(node, runtimeClass) && obstacleOf(node, runtimeClass) === undefined;
}

export const isReady = ({ status }: { readonly status?: Node['status'] | undefined }): boolean =>
  status?.conditions?.some(({ type, status: is }) => type === 'Ready' && is === 'True') ?? false;

/** Whether the class permits its pods on such nodes. */
export function isSelected({ metadata: { labels = {} } }: Node, { scheduling }: RuntimeClass): boolean {
  return Object.entries(scheduling?.nodeSelector ?? {}).every(([key, value]) => labels[key] === value);
}

/**
 * What prevents pods of the class from running on a node that it selects, as the predicate of a sentence; undefined if
 * nothing does.
 */
export function obstacleOf(
  { metadata, spec, status }: Node,
  { scheduling }: RuntimeClass,
): string | undefined {
  if (metadata.deletionTimestamp !== undefined) return 'is being deleted';
  if (!isReady({ status })) return 'is not Ready';
  if (spec?.unschedulable) return 'is cordoned';
  const tolerations = scheduling?.tolerations ?? [];
  const taint = (spec?.taints ?? [])
    .filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute')
    .find((one) => !tolerations.some((toleration) => tolerates(toleration, one)));
  if (taint === undefined) return undefined;
  const value = taint.value ? `=${taint.value}` : '';
  return `has the taint ${taint.key}${value}:${taint.effect}, which the class does not tolerate`;
}

/** The node as it would be if it were not cordoned, not Ready or being deleted. */
export function atItsBest({ metadata, spec, status }: Node): Node {
  const { deletionTimestamp: _, ...kept } = metadata;
  const taints = spec?.taints?.filter(({ key }) => !key.startsWith('node.kubernetes.io/')) ?? [];
  return {
    metadata: kept,
    spec: { taints },
    status: { ...status, conditions: [{ type: 'Ready', status: 'True' }] },
  };
}

function tolerates(
  toleration: Toleration,
  taint: { readonly key: string; readonly value?: string; readonly effect: string },
): boolean {
  if (toleration.effect && toleration.effect !== taint.effect) return false;
  if (!toleration.key) return toleration.operator === 'Exists';
  if (toleration.key !== taint.key) return false;
  return toleration.operator === 'Exists' || (toleration.value ?? '') === (taint.value ?? '');
}

/** The fields that the gate and the prober read, so that heartbeats and image lists cause no change. */
export function trimNode(node: Node): Node {
  const { name, uid, resourceVersion, labels, deletionTimestamp } = node.metadata;
  const { unschedulable, taints } = node.spec ?? {};
  const { conditions, runtimeHandlers, nodeInfo } = node.status ?? {};
  const { bootID, containerRuntimeVersion } = nodeInfo ?? {};
  return {
    metadata: {
      name,
      ...(uid === undefined ? {} : { uid }),
      ...(resourceVersion === undefined ? {} : { resourceVersion }),
      ...(labels === undefined ? {} : { labels }),
      ...(deletionTimestamp === undefined ? {} : { deletionTimestamp }),
    },
    spec: { ...(unschedulable ? { unschedulable } : {}), ...(taints ? { taints } : {}) },
    status: {
      conditions: (conditions ?? []).flatMap(trimCondition),
      ...(runtimeHandlers
        ? { runtimeHandlers: runtimeHandlers.map(({ name: handler = '' }) => ({ name: handler })) }
        : {}),
      nodeInfo: {
        ...(bootID === undefined ? {} : { bootID }),
        ...(containerRuntimeVersion === undefined ? {} : { containerRuntimeVersion }),
      },
    },
  };
}

/** The time of this condition is kept, since it shows when the network plugin started. */
function trimCondition({ type, status, lastTransitionTime }: NodeCondition): NodeCondition[] {
  if (type === 'Ready') return [{ type, status }];
  if (type !== 'NetworkUnavailable' || lastTransitionTime === undefined) return [];
  return [{ type, status, lastTransitionTime }];
}

type NodeCondition = NonNullable<NonNullable<Node['status']>['conditions']>[number];
