import { describe, expect, it } from 'vitest';
import { asWritten, mutantsOf, nameOf, type Policy } from './mutants.ts';

const policy = (spec: Policy['spec']): Policy => ({ metadata: { name: 'db', namespace: 'home' }, spec });
const rule = { ports: [{ port: 5432 }] };

describe('mutants of a policy', () => {
  it('take it away, and open each way that it closes beside what it allows', () => {
    const both = policy({ policyTypes: ['Ingress', 'Egress'], ingress: [rule] });
    expect(mutantsOf(both).map(nameOf)).toEqual([
      'home/db removed',
      'home/db allows all ingress',
      'home/db allows all egress',
    ]);
    expect(mutantsOf(both).map(({ instead }) => instead?.spec)).toEqual([
      undefined,
      { policyTypes: ['Ingress', 'Egress'], ingress: [rule, {}] },
      { policyTypes: ['Ingress', 'Egress'], ingress: [rule], egress: [{}] },
    ]);
  });

  it('do not open a way that it says nothing about', () => {
    expect(mutantsOf(policy({ egress: [rule] })).map(({ change }) => change)).toEqual([
      'removed',
      'allows all ingress',
    ]);
  });

  it('are undone by what a person would have written', () => {
    const read = {
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'db', namespace: 'home', labels: { a: 'b' }, uid: 'u', resourceVersion: '7' },
      spec: { ingress: [rule] },
      status: {},
    };
    expect(asWritten(read)).toEqual({
      apiVersion: 'networking.k8s.io/v1',
      kind: 'NetworkPolicy',
      metadata: { name: 'db', namespace: 'home', labels: { a: 'b' } },
      spec: { ingress: [rule] },
    });
  });
});
