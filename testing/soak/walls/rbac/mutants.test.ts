import { expect, it } from 'vitest';
import { mutantsOf } from './mutants.ts';

const rule = { apiGroups: [''], resources: ['secrets'], resourceNames: ['a'], verbs: ['get'] };
const metadata = { name: 'reader', namespace: 'home' };
const apiVersion = 'rbac.authorization.k8s.io/v1';

it('each rule of a role is taken away, and widened by verb, resource, group and name, alone', () => {
  const other = { ...rule, resources: ['pods'] };
  const made = mutantsOf({ apiVersion, kind: 'Role', metadata, rules: [rule, other] });
  expect(made).toHaveLength(10);
  expect(made.slice(0, 5).map(({ instead }) => instead?.['rules'])).toEqual([
    [other],
    [{ ...rule, verbs: ['*'] }, other],
    [{ ...rule, resources: ['*'] }, other],
    [{ ...rule, apiGroups: ['*'] }, other],
    [{ apiGroups: [''], resources: ['secrets'], verbs: ['get'] }, other],
  ]);
});

it('each binding is taken away, and given to everybody and to one account more', () => {
  const subjects = [{ kind: 'ServiceAccount', name: 'x', namespace: 'home' }];
  const made = mutantsOf({ apiVersion, kind: 'RoleBinding', metadata, subjects });
  expect(made.map(({ instead }) => instead?.['subjects']?.length)).toEqual([undefined, 2, 2]);
});
