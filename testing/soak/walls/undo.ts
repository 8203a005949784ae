/**
 * Changes of a cluster that are undone when their use ends, or by the next run if this one is killed. The cluster stores how to
 * undo each change before it is made.
 */
import type { Kube } from '../../../e2e/space/kube.ts';

/** How a change is undone; there is one of each kind at a time. */
export type Undo =
  | { readonly kind: 'policy'; readonly policy: Written }
  | { readonly kind: 'open'; readonly namespace: string }
  | {
      readonly kind: 'replicas';
      readonly name: string;
      readonly namespace: string;
      readonly replicas: number;
    };

type Written = { readonly metadata: { readonly name: string; readonly namespace?: string } };

/** A policy can be restored only while its namespace is open, so these have an order. */
const ORDER: readonly Undo['kind'][] = ['policy', 'open', 'replicas'];
const JOURNAL = 'walls-soak';
export const OPEN = 'platform.space/open';

export interface UndoContext {
  readonly kube: Kube;
  /** The namespace of the ConfigMap that records what to undo. */
  readonly namespace: string;
}

export async function must(kube: Kube, args: readonly string[], object?: object): Promise<void> {
  const { code, stderr } = await kube.run(args, object && JSON.stringify(object));
  if (code !== 0) throw new Error(`kubectl ${args.slice(0, 3).join(' ')}: ${stderr.trim()}`);
}

/** Runs `act` with the change recorded, and then undoes it, also if `act` fails. */
export async function withUndo<T>(undoing: UndoContext, undo: Undo, act: () => Promise<T>): Promise<T> {
  await write(undoing, undo.kind, JSON.stringify(undo));
  try {
    return await act();
  } finally {
    await takeBack(undoing.kube, undo);
    await write(undoing, undo.kind, null);
  }
}

/** Undoes what a killed run has left changed, and returns the kinds of those changes. */
export async function undoLeftovers({ kube, namespace }: UndoContext): Promise<Undo['kind'][]> {
  const data: Record<string, string> = (await kube.get('configmap', JOURNAL, namespace))?.['data'] ?? {};
  const left = ORDER.filter((kind) => data[kind] !== undefined);
  for (const kind of left) await takeBack(kube, JSON.parse(data[kind] ?? ''));
  await kube.remove('configmap', JOURNAL, namespace);
  return left;
}

async function write({ kube, namespace }: UndoContext, key: string, value: string | null): Promise<void> {
  const at = ['configmap', JOURNAL, '-n', namespace];
  if ((await kube.get('configmap', JOURNAL, namespace)) === undefined) await must(kube, ['create', ...at]);
  await must(kube, ['patch', ...at, '--type=merge', '-p', JSON.stringify({ data: { [key]: value } })]);
}

async function takeBack(kube: Kube, undo: Undo): Promise<void> {
  if (undo.kind === 'policy') {
    const { name, namespace = '' } = undo.policy.metadata;
    // The namespace may have been deleted with its Capsule, and everything in it.
    if ((await kube.get('namespace', namespace)) === undefined) return;
    const there = (await kube.get('networkpolicy', name, namespace)) !== undefined;
    await must(kube, [there ? 'replace' : 'create', '-f', '-'], undo.policy);
  } else if (undo.kind === 'open') {
    if ((await kube.get('namespace', undo.namespace)) === undefined) return;
    await must(kube, ['annotate', 'namespace', undo.namespace, `${OPEN}-`]);
  } else {
    const { name, namespace, replicas } = undo;
    await must(kube, ['scale', 'deployment', name, '-n', namespace, `--replicas=${replicas}`]);
  }
}
