import type { Equivalent } from './entry.ts';

const PROBER = 'operator/sandbox/prober.ts';

export const OPERATOR: readonly Equivalent[] = [
  {
    file: 'operator/sandbox/gate.ts',
    code: '(node) => !able.includes(node) && isCandidate(atItsBest(node), found, wanted),',
    change:
      '!able.includes(node) && isCandidate(atItsBest(node), found, wanted) → (isCandidate(atItsBest(node), found, wanted))',
    reason: 'nodes that rest are considered only if no node is able, or no able node has passed',
  },
  {
    file: 'operator/sandbox/gate.ts',
    code: '.sort((a, b) => (a.node < b.node ? -1 : 1));',
    change: 'a.node < b.node → a.node <= b.node',
    reason: 'no two nodes have one name',
  },
  {
    file: 'operator/sandbox/network.ts',
    code: 'const open = walls.filter((wall) => wall.open).toSorted((a, b) => (a.node < b.node ? -1 : 1));',
    change: 'a.node < b.node → a.node <= b.node',
    reason: 'no two nodes have one name',
  },
  {
    file: PROBER,
    code: 'return act(context, plan, (operator) => node && probeObject(question, node, operator), signal);',
    change: 'node && probeObject(question, node, operator) → (probeObject(question, node, operator))',
    reason: 'none is made for a node that is gone: the operand is for the compiler',
  },
  {
    file: PROBER,
    code: 'if (pod) sightings.note(pod, change.now !== undefined && (isProbe(pod) || isOutside(pod)));',
    change: 'pod → true',
    reason: 'each change has a pod, before or now: the condition is for the compiler',
  },
  {
    file: PROBER,
    code: 'const node = probedNode(pod) ?? (pod && isOutside(pod) ? pod.spec?.nodeName : undefined);',
    change: 'pod && isOutside(pod) → (isOutside(pod))',
    reason: 'each change has a pod, before or now: the operand is for the compiler',
  },
  {
    file: PROBER,
    code: 'runtimeClass !== undefined && createdAt(pod) < createdAt(runtimeClass);',
    change:
      'runtimeClass !== undefined && createdAt(pod) < createdAt(runtimeClass) → (createdAt(pod) < createdAt(runtimeClass))',
    reason:
      'without the class no probe is wanted, so this is not evaluated: the comparison is for the compiler',
  },
  {
    file: 'operator/sandbox/probe.ts',
    code: "if (probes.length === 0) return { verdict: 'untried' };",
    change: 'probes.length === 0 → false',
    reason: 'among no probes none is found, once its name was computed',
  },
  {
    file: 'operator/assistant/inputs/entered.ts',
    code: 'if (base64 === undefined) return undefined;',
    change: 'base64 === undefined → false',
    reason: 'an undefined text cannot be decoded either: the comparison is for the compiler',
  },
  {
    file: 'operator/assistant/inputs/judge.ts',
    code: 'if (!value || !old) continue;',
    change: '!value || !old → (!value)',
    reason:
      'a value that was never sealed is sealed, whether it differs or not: the comparison is for the compiler',
  },
  {
    file: 'operator/assistant/inputs/judge.ts',
    code: 'if (definition === undefined) return [];',
    change: 'definition === undefined → false',
    reason: 'all keys are those of definitions: the comparison is for the compiler',
  },
  {
    file: 'operator/assistant/decide.ts',
    code: "if (at !== bt) return (at ?? '') < (bt ?? '');",
    change: "(at ?? '') < (bt ?? '') → (at ?? '') <= (bt ?? '')",
    reason: 'the two values are never equal here',
  },
];
