import { expect, test } from 'vitest';
import type { Node, Pod } from '../kinds.ts';
import { names } from '../testing/names.ts';
import { probeObject, sandboxQuestion } from './probe.ts';
import { Proofs } from './proofs.ts';

const sandbox = sandboxQuestion(names);
const node = (bootID: string): Node => ({ metadata: { name: 'n1' }, status: { nodeInfo: { bootID } } });
const probe = (of: Node, phase: string): Pod[] => {
  const { metadata, spec } = probeObject(sandbox, of) as unknown as Required<Pod>;
  return [{ metadata, spec: { ...spec, nodeName: 'n1' }, status: { phase } }];
};

test('a failure counts while the probe is retried, until one passes or the node is another one', () => {
  const proofs = new Proofs();
  const [first, next] = [node('b1'), node('b2')];
  const verdicts = [
    proofs.of(sandbox, first, []),
    proofs.of(sandbox, first, probe(first, 'Failed')),
    proofs.of(sandbox, first, []),
    proofs.of(sandbox, first, probe(first, 'Pending')),
    proofs.of(sandbox, first, probe(first, 'Succeeded')),
    proofs.of(sandbox, first, []),
    proofs.of(sandbox, first, probe(first, 'Failed')),
    proofs.of(sandbox, next, probe(first, 'Failed')),
    proofs.of(sandbox, next, probe(next, 'Pending')),
  ].map(({ verdict }) => verdict);
  expect(verdicts).toEqual([
    ...['untried', 'failed', 'failed', 'failed', 'passed'],
    ...['untried', 'failed', 'untried', 'running'],
  ]);
});

test('a node that is gone is forgotten', () => {
  const proofs = new Proofs();
  proofs.of(sandbox, node('b1'), probe(node('b1'), 'Failed'));
  proofs.forget('n1');
  expect(proofs.of(sandbox, node('b1'), []).verdict).toBe('untried');
});

test('a pass of limited validity counts while the probe is repeated, and not beyond a boot', () => {
  const proofs = new Proofs({ keepsPasses: true });
  const [first, next] = [node('b1'), node('b2')];
  const verdicts = [
    proofs.of(sandbox, first, probe(first, 'Succeeded')),
    proofs.of(sandbox, first, []),
    proofs.of(sandbox, first, probe(first, 'Pending')),
    proofs.of(sandbox, first, probe(first, 'Failed')),
    proofs.of(sandbox, first, []),
    proofs.of(sandbox, first, probe(first, 'Succeeded')),
    proofs.of(sandbox, next, []),
  ].map(({ verdict }) => verdict);
  expect(verdicts).toEqual(['passed', 'passed', 'passed', 'failed', 'failed', 'passed', 'untried']);
});
