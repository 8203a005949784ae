/** Changes one NetworkPolicy to a mutant while some work is done. */
import { type Patience, wait } from '../../../e2e/verify/probers.ts';
import { asWritten, type Mutant, type Policy } from './mutants.ts';
import { must, OPEN, type UndoContext, withUndo } from './undo.ts';

type Written = Policy & Record<string, unknown>;

/** Only the operator may change a Capsule's policies, unless an administrator has opened the namespace. */
export async function changed<T>(
  undoing: UndoContext,
  mutant: Mutant,
  patience: Patience,
  act: () => Promise<T>,
): Promise<T> {
  const { kube } = undoing;
  const { name, namespace = '' } = mutant.policy.metadata;
  const policy = asWritten(mutant.policy as Written);
  const change = (...more: readonly string[]) =>
    mutant.instead === undefined
      ? kube.run(['delete', 'networkpolicy', name, '-n', namespace, ...more])
      : kube.run(['replace', '-f', '-', ...more], JSON.stringify(asWritten(mutant.instead as Written)));
  const make = () =>
    withUndo(undoing, { kind: 'policy', policy }, async () => {
      const { code, stderr } = await change();
      if (code !== 0) throw new Error(`${namespace}/${name}: ${stderr.trim()}`);
      return act();
    });
  const labels = (await kube.get('namespace', namespace))?.metadata.labels ?? {};
  if (labels['platform.space/capsule'] === undefined) return make();
  return withUndo(undoing, { kind: 'open', namespace }, async () => {
    await must(kube, ['annotate', '--overwrite', 'namespace', namespace, `${OPEN}=true`]);
    // Admission sees the annotation a moment later.
    await wait(`${namespace} to be open`, patience, async () =>
      (await change('--dry-run=server')).code === 0 ? true : undefined,
    );
    return make();
  });
}
