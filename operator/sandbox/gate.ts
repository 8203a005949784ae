import { type Finding, no, unknown, yes } from '../conditions.ts';
import type { Node, RuntimeClass } from '../kinds.ts';
import type { SpaceNames } from '../names.ts';
import type { Health } from '../runtime/reflector.ts';
import { atItsBest, canRun, isSelected, obstacleOf } from './node.ts';
import type { Proof } from './probe.ts';

/** The settings that the gate checks for. */
type Wanted = Pick<SpaceNames, 'runtimeClass' | 'handler' | 'handlerReport'>;

/** Everything that the gate decides by. A store whose watch fails is treated as unknown. */
export interface GateInput {
  readonly wanted: Wanted;
  readonly classes: { readonly health: Health; readonly found: RuntimeClass | undefined };
  readonly nodes: { readonly health: Health; readonly all: readonly Node[] };
  readonly probes: { readonly health: Health; readonly of: (node: Node) => Proof };
}

/** Whether pods of the class get the configured handler. */
export function isUsable(
  found: RuntimeClass | undefined,
  { handler }: Pick<Wanted, 'handler'>,
): found is RuntimeClass {
  return found?.metadata.deletionTimestamp === undefined && found?.handler === handler;
}

/**
 * Whether a pod of the class could be scheduled on the node and, as far as the node reports handlers, find its handler
 * there.
 */
export function isCandidate(node: Node, runtimeClass: RuntimeClass, wanted: Wanted): boolean {
  return canRun(node, runtimeClass) && (reports(node, wanted.handler) ?? wanted.handlerReport === 'probe');
}

/** Whether the node reports the handler; undefined if it reports no handlers at all. */
export function reports(node: Node, handler: string): boolean | undefined {
  return node.status?.runtimeHandlers?.some(({ name }) => name === handler);
}

/**
 * Whether tenant code may be scheduled: the class exists with the configured handler, a node that it selects reports
 * that handler, and a probe there has found itself in the sandbox. Anything that cannot be read keeps the gate closed.
 */
export function decideGate({ wanted, classes, nodes, probes }: GateInput): Finding {
  const { runtimeClass: className, handler } = wanted;
  if (classes.health !== 'current') return unreadable('RuntimeClasses');
  const { found } = classes;
  if (!found || found.metadata.deletionTimestamp !== undefined) {
    return no(
      'RuntimeClassNotFound',
      `There is no RuntimeClass "${className}". Create it with handler "${handler}", on nodes where gVisor is installed; scheduling then resumes by itself.`,
    );
  }
  if (found.handler !== handler) {
    return no(
      'HandlerMismatch',
      `RuntimeClass "${className}" names handler "${found.handler}", not "${handler}". If that is gVisor's handler on this platform, set sandbox.handler in the chart. Otherwise pods under it would not be in the sandbox: delete it and create it with handler "${handler}".`,
    );
  }
  if (nodes.health !== 'current') return unreadable('Nodes');
  const open = nodes.all.filter((node) => canRun(node, found));
  const able = open.filter((node) => isCandidate(node, found, wanted));
  const resting = nodes.all.filter(
    (node) => !able.includes(node) && isCandidate(atItsBest(node), found, wanted),
  );
  if (able.length === 0) {
    if (open.length === 0 || resting.length > 0) return noNodeReady(found, nodes.all, handler);
    if (open.every((node) => reports(node, handler) === undefined)) {
      return unknown(
        'HandlerUnknown',
        'No node reports its runtime handlers, so the sandbox cannot be proved. Use containerd 2.0 or later with Kubernetes 1.31 or later, or set sandbox.handlerReport=probe in the chart, so that a passed probe is enough.',
      );
    }
    return no(
      'NoNodeWithHandler',
      `No Ready, schedulable node that RuntimeClass "${className}" selects reports handler "${handler}": not ${listed(open.map(quotedName), ', nor ')}. Install gVisor (runsc) on a node and register the handler in containerd.`,
    );
  }
  if (probes.health !== 'current') return unreadable('Pods');
  const lacking = open.filter((node) => reports(node, handler) === false);
  return decideProofs({ wanted, found, all: nodes.all, able, resting, lacking, of: probes.of });
}

interface Proofs {
  readonly wanted: Wanted;
  readonly found: RuntimeClass;
  readonly all: readonly Node[];
  /**
   * Nodes on which pods of the class can be scheduled now (`able`), and nodes that may accept pods again later
   * (`resting`).
   */
  readonly able: readonly Node[];
  readonly resting: readonly Node[];
  /** Nodes that the class selects and that lack its handler. */
  readonly lacking: readonly Node[];
  readonly of: (node: Node) => Proof;
}

function decideProofs({ wanted, found, all, able, resting, lacking, of }: Proofs): Finding {
  const { runtimeClass, handler } = wanted;
  // One node is enough, so that with thousands of nodes the others are not examined.
  if (able.some((node) => of(node).verdict === 'passed')) {
    return yes(
      'SandboxAvailable',
      `RuntimeClass "${runtimeClass}" has handler "${handler}", and a probe ran in the sandbox.${warningOf(lacking)}`,
    );
  }
  const proofs = able
    .map((node) => ({ node: node.metadata.name, ...of(node) }))
    .sort((a, b) => (a.node < b.node ? -1 : 1));
  const pending = proofs.find(({ verdict }) => verdict !== 'failed');
  if (pending) {
    return unknown(
      'ProbePending',
      `The sandbox is being tested on node "${pending.node}"${pending.found ? `: ${pending.found}` : ''}. Nothing is scheduled until a probe has passed; see the pods labelled platform.space/component=sandbox-probe.`,
    );
  }
  // A failure on one node does not disprove what was proved on another.
  if (resting.some((node) => of(node).verdict === 'passed')) return noNodeReady(found, all, handler);
  const [failed] = proofs;
  return no(
    'ProbeFailed',
    `On node "${failed?.node}" a probe under RuntimeClass "${runtimeClass}" found: ${failed?.found ?? 'nothing'}. The handler "${handler}" does not start gVisor there: repair containerd's configuration. It is retried every half minute.`,
  );
}

/** The scheduler does not consider handlers when it chooses a node. */
function warningOf(lacking: readonly Node[]): string {
  if (lacking.length === 0) return '';
  return ` It also selects nodes that do not report the handler, so its pods cannot start there: ${listed(lacking.map(quotedName), ', ')}. Exclude them with the class's scheduling (sandbox.scheduling in the chart).`;
}

function noNodeReady(runtimeClass: RuntimeClass, all: readonly Node[], handler: string): Finding {
  return no(
    'NoNodeReady',
    `No node that RuntimeClass "${runtimeClass.metadata.name}" selects is Ready, schedulable and proved: ${whyNone(runtimeClass, all, handler)}. Running Assistants continue. A probe waits for a node, so that an autoscaler adds one; otherwise uncordon, repair or add one.`,
  );
}

function whyNone(runtimeClass: RuntimeClass, all: readonly Node[], handler: string): string {
  const selected = all.filter((node) => isSelected(node, runtimeClass));
  if (selected.length === 0) {
    const labels = Object.entries(runtimeClass.scheduling?.nodeSelector ?? {});
    const wanted = labels.map(([key, value]) => `${key}=${value}`).join(', ');
    return wanted === '' ? 'there is none' : `no node has the labels ${wanted}`;
  }
  const unproved = (node: Node) =>
    reports(node, handler) === false ? `does not report handler "${handler}"` : 'has not passed a probe';
  const sentence = (node: Node) => `${quotedName(node)} ${obstacleOf(node, runtimeClass) ?? unproved(node)}`;
  return listed(selected.map(sentence), '; ');
}

const quotedName = ({ metadata }: Node): string => `"${metadata.name}"`;

const LISTED = 5;

/**
 * The first few in a fixed order, without the number of the others: each different text would be written to every
 * Assistant.
 */
function listed(texts: readonly string[], separator: string): string {
  const first = texts.toSorted().slice(0, LISTED).join(separator);
  return texts.length > LISTED ? `${first} and others` : first;
}

/**
 * Reasons that mean that the sandbox or the network policies do not work, and not only that no node is available now.
 */
const LOST = new Set<Finding['reason']>([
  'RuntimeClassNotFound',
  'HandlerMismatch',
  'NoNodeWithHandler',
  'ProbeFailed',
  'EnforcementFailed',
]);

export const isLost = ({ reason }: Finding): boolean => LOST.has(reason);

const UNREADABLE = 'ClusterUnreadable';

export const isUnreadable = ({ reason }: Finding): boolean => reason === UNREADABLE;

const unreadable = (what: string): Finding =>
  unknown(
    UNREADABLE,
    `${what} cannot be read, so nothing new is scheduled. See the operator's log and its rights.`,
  );
