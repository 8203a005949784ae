import { describe, expect, it } from 'vitest';
import type { KubeObject } from '../../../../e2e/space/kube-object.ts';
import { termsOf, without } from './cel.ts';
import { changed, type Mutant, mutantsOf } from './mutants.ts';

describe('terms of an expression', () => {
  const told = (text: string) => termsOf(text).map(({ start, end }) => text.slice(start, end).trim());

  it.each<[string, string[]]>([
    ['a', []],
    ['a || b && c', ['a', 'b && c', 'b', 'c']],
    ['!(a && b)', ['a', 'b']],
    ['x.all(k, k in [1] || f(k))', ['k in [1]', 'f(k)']],
    ['a ? b : c || d', ['c', 'd']],
    ['a.?b[?"c && d"].orValue({}) == {?x: y} && z', ['a.?b[?"c && d"].orValue({}) == {?x: y}', 'z']],
    ["x == 'it\\'s || so'", []],
  ])('of %s', (text, terms) => expect(told(text)).toEqual(terms));

  it('are left out so that what is left decides', () => {
    const [either, both] = ['a || b', 'a && b'].map((text) => {
      const [first] = termsOf(text);
      return without(text, first!).replaceAll(/\s+/g, ' ').trim();
    });
    expect([either, both]).toEqual(['false || b', 'true && b']);
  });
});

describe('mutants of a policy', () => {
  const policy: KubeObject = {
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind: 'ValidatingAdmissionPolicy',
    metadata: { name: 'home-walls' },
    spec: {
      matchConstraints: {
        resourceRules: [{ apiGroups: [''], resources: ['pods', 'secrets'], operations: ['CREATE'] }],
      },
      matchConditions: [{ name: 'somebody', expression: 'a' }],
      validations: [{ expression: 'b || c' }, { expression: 'd' }],
    },
  };
  const specOf = (mutant: Mutant | undefined) => changed(policy, mutant!)?.['spec'];

  it('take it away, and each rule, condition, exemption and resource alone', () => {
    const made = mutantsOf(policy);
    expect(made.map(({ change }) => change)).toEqual([
      'removed',
      'allows 0: b || c',
      'allows 1: d',
      'without its condition somebody',
      'ignores pods',
      'ignores secrets',
      'validations 0 without || b',
      'validations 0 without || c',
    ]);
    expect(changed(policy, made[0]!)).toBeUndefined();
    expect(specOf(made[1]).validations).toEqual([{ expression: 'true' }, { expression: 'd' }]);
    expect(specOf(made[3]).matchConditions).toEqual([]);
    expect(specOf(made[4]).matchConstraints.resourceRules[0].resources).toEqual(['secrets']);
    expect(specOf(made[6]).validations[0].expression).toMatch(/^\s*false\s*\|\| c$/);
    expect(policy['spec'].validations[0].expression).toBe('b || c');
  });

  it('of a binding have it hold in more places, and in fewer', () => {
    const values = ['home-system', 'home-services'];
    const binding = {
      ...policy,
      kind: 'ValidatingAdmissionPolicyBinding',
      spec: { matchResources: { namespaceSelector: { matchExpressions: [{ key: 'name', values }] } } },
    };
    expect(mutantsOf(binding).map(({ change }) => change)).toEqual([
      'removed',
      'applies for any name',
      'does not apply if name is home-system',
      'does not apply if name is home-services',
    ]);
  });

  it('leave every other object alone', () => {
    const other = { ...policy, metadata: { name: 'home-doors' } };
    expect(changed(other, mutantsOf(policy)[0]!)).toBe(other);
  });
});
