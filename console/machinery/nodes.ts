import * as z from 'zod';
import { type Listed, mapped, mayList } from './may-list.ts';
import type { Reader } from './reader.ts';

/** The settings of the sandbox, as the operator has them. */
export interface Sandbox {
  readonly runtimeClass: string;
  readonly handler: string;
}

export interface RuntimeClass {
  readonly name: string;
  readonly handler: string;
}

export interface Node {
  readonly name: string;
  /** Whether the sandbox is on the node: `missing` if it is not, though pods of the class are scheduled there. */
  readonly sandbox: 'there' | 'missing' | 'not-asked' | 'unknown';
  readonly handlers: readonly string[];
  /** The versions of the kubelet and of the container runtime. */
  readonly kubelet: string;
  readonly runtime: string;
}

const rule = z.object({
  key: z.string().default(''),
  operator: z.string().default('Equal'),
  value: z.string().default(''),
  effect: z.string().default(''),
});
const node = z.object({
  metadata: z.object({ name: z.string(), labels: z.record(z.string(), z.string()).default({}) }),
  spec: z
    .object({ unschedulable: z.boolean().default(false), taints: z.array(rule).nullish() })
    .default({ unschedulable: false }),
  status: z
    .object({
      nodeInfo: z
        .object({
          containerRuntimeVersion: z.string().default(''),
          kubeletVersion: z.string().default(''),
        })
        .default({ containerRuntimeVersion: '', kubeletVersion: '' }),
      runtimeHandlers: z.array(z.object({ name: z.string().default('') })).nullish(),
    })
    .default({ nodeInfo: { containerRuntimeVersion: '', kubeletVersion: '' } }),
});
const runtimeClass = z.object({
  metadata: z.object({ name: z.string() }),
  handler: z.string(),
  scheduling: z
    .object({
      nodeSelector: z.record(z.string(), z.string()).default({}),
      tolerations: z.array(rule).nullish(),
    })
    .default({ nodeSelector: {} }),
});
type GivenNode = z.infer<typeof node>;
type GivenClass = z.infer<typeof runtimeClass>;

export async function nodesOf(
  reader: Pick<Reader, 'ask'>,
  sandbox: Sandbox,
): Promise<{
  readonly nodes: Listed<Node> | undefined;
  readonly classes: Listed<RuntimeClass> | undefined;
}> {
  const [nodes, classes] = await Promise.all([
    mayList(reader, node, { path: '/api/v1/nodes' }),
    mayList(reader, runtimeClass, { path: '/apis/node.k8s.io/v1/runtimeclasses' }),
  ]);
  const ours = classes?.items.find(({ metadata }) => metadata.name === sandbox.runtimeClass);
  return {
    nodes: mapped(nodes, (one) => nodeOf(one, ours, sandbox)),
    classes: mapped(classes, ({ metadata: { name }, handler }) => ({ name, handler })),
  };
}

function nodeOf(given: GivenNode, ours: GivenClass | undefined, { handler }: Sandbox): Node {
  const { nodeInfo, runtimeHandlers } = given.status;
  const handlers = (runtimeHandlers ?? []).map(({ name }) => name).filter((name) => name !== '');
  const told = handlers.length === 0 ? 'unknown' : handlers.includes(handler) ? 'there' : 'missing';
  return {
    name: given.metadata.name,
    // A node to which the class sends no pods needs no sandbox.
    sandbox: told === 'missing' && !(ours !== undefined && isSent(given, ours)) ? 'not-asked' : told,
    handlers,
    kubelet: nodeInfo.kubeletVersion,
    runtime: nodeInfo.containerRuntimeVersion,
  };
}

/** Whether a pod of the class could be scheduled on the node, as far as class and node show. */
function isSent({ metadata: { labels }, spec }: GivenNode, { scheduling }: GivenClass): boolean {
  if (spec.unschedulable) return false;
  if (!Object.entries(scheduling.nodeSelector).every(([key, value]) => labels[key] === value)) return false;
  return (spec.taints ?? [])
    .filter(({ effect }) => effect === 'NoSchedule' || effect === 'NoExecute')
    .every((taint) =>
      (scheduling.tolerations ?? []).some(
        ({ key, operator, value, effect }) =>
          (effect === '' || effect === taint.effect) &&
          (operator === 'Exists'
            ? key === '' || key === taint.key
            : key === taint.key && value === taint.value),
      ),
    );
}
