/** The changes of each rule of each role of a Space, and of each binding. This file needs no server. */
import type { KubeObject } from '../../../../e2e/space/kube-object.ts';

interface Rule {
  readonly apiGroups: readonly string[];
  readonly resources: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

export interface Mutant {
  readonly object: KubeObject;
  readonly change: string;
  /** The object that replaces it; undefined if it is removed. */
  readonly instead: KubeObject | undefined;
}

export function mutantsOf(object: KubeObject): readonly Mutant[] {
  if (object.kind === 'Role' || object.kind === 'ClusterRole') return ofRole(object, object['rules'] ?? []);
  return object.kind.endsWith('RoleBinding') ? ofBinding(object) : [];
}

function ofRole(object: KubeObject, rules: readonly Rule[]): Mutant[] {
  return rules.flatMap((rule, i) => {
    const instead = (...other: readonly Rule[]): KubeObject => ({
      ...object,
      rules: rules.toSpliced(i, 1, ...other),
    });
    const { resourceNames, ...unnamed } = rule;
    const told = `${rule.verbs.join(', ')} ${rule.resources.join(', ')}`;
    return [
      { object, change: `may no longer ${told}`, instead: instead() },
      { object, change: `any verb: ${told}`, instead: instead({ ...rule, verbs: ['*'] }) },
      { object, change: `any resource: ${told}`, instead: instead({ ...rule, resources: ['*'] }) },
      { object, change: `any group: ${told}`, instead: instead({ ...rule, apiGroups: ['*'] }) },
      ...(resourceNames === undefined
        ? []
        : [{ object, change: `any name: ${told}`, instead: instead(unnamed) }]),
    ];
  });
}

function ofBinding(object: KubeObject): Mutant[] {
  const subjects: readonly object[] = object['subjects'] ?? [];
  const everybody = { kind: 'Group', apiGroup: 'rbac.authorization.k8s.io', name: 'system:authenticated' };
  const neighbour = { kind: 'ServiceAccount', name: 'stranger', namespace: 'home-services' };
  return [
    { object, change: 'bound to nobody', instead: undefined },
    { object, change: 'bound to everybody', instead: { ...object, subjects: [...subjects, everybody] } },
    {
      object,
      change: 'bound to one more account',
      instead: { ...object, subjects: [...subjects, neighbour] },
    },
  ];
}
