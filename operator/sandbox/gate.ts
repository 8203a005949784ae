import { type Finding, no, unknown, yes } from '../conditions.ts';
import type { Node, RuntimeClass } from '../kinds.ts';
import type { Health } from '../runtime/reflector.ts';
import { canRun } from './node.ts';

/** All that the gate knows. A view that cannot be trusted is no view. */
export interface GateInput {
  readonly className: string;
  readonly handler: string;
  readonly classes: { readonly health: Health; readonly found: RuntimeClass | undefined };
  readonly nodes: { readonly health: Health; readonly all: readonly Node[] };
}

/**
 * Whether tenant code may be scheduled: the class exists with the handler we were told, and a node that it selects
 * reports that handler. Whatever cannot be read keeps the gate closed.
 */
export function decideGate(input: GateInput): Finding {
  const { className, handler, classes, nodes } = input;
  if (classes.health !== 'current') {
    return unknown(
      'ClusterUnreadable',
      "RuntimeClasses cannot be read, so nothing new is scheduled. See the operator's log and its rights.",
    );
  }
  const found = classes.found;
  if (!found || found.metadata.deletionTimestamp !== undefined) {
    return no(
      'RuntimeClassNotFound',
      `There is no RuntimeClass "${className}". Create it with handler "${handler}", on nodes where gVisor is installed; scheduling then goes on by itself.`,
    );
  }
  if (found.handler !== handler) {
    return no(
      'HandlerMismatch',
      `RuntimeClass "${className}" names handler "${found.handler}", not "${handler}". Pods under it would not be in the sandbox: delete it and create it with handler "${handler}".`,
    );
  }
  if (nodes.health !== 'current') {
    return unknown(
      'ClusterUnreadable',
      "Nodes cannot be read, so nothing new is scheduled. See the operator's log and its rights.",
    );
  }
  const candidates = nodes.all.filter((node) => canRun(node, found));
  const silent = candidates.filter((node) => node.status?.runtimeHandlers === undefined);
  const able = candidates.filter((node) =>
    node.status?.runtimeHandlers?.some(({ name }) => name === handler),
  );
  if (able.length > 0) {
    return yes(
      'SandboxAvailable',
      `RuntimeClass "${className}" has handler "${handler}", and nodes report it.`,
    );
  }
  if (candidates.length > 0 && silent.length === candidates.length) {
    return unknown(
      'HandlerUnknown',
      'No node reports its runtime handlers, so that the sandbox cannot be proved. Use containerd 2.0 or later with Kubernetes 1.31 or later.',
    );
  }
  return no(
    'NoNodeWithHandler',
    `No Ready, schedulable node that RuntimeClass "${className}" selects reports handler "${handler}". Install gVisor (runsc) on a node and register the handler in containerd.`,
  );
}
