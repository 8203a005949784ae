/** The changes of each NetworkPolicy: it is removed, or opened in one direction. This file needs no cluster. */

export interface Policy {
  readonly metadata: { readonly name: string; readonly namespace?: string };
  readonly spec: {
    readonly policyTypes?: readonly string[];
    readonly ingress?: readonly object[];
    readonly egress?: readonly object[];
    readonly [field: string]: unknown;
  };
}

export interface Mutant {
  readonly policy: Policy;
  readonly change: 'removed' | 'allows all ingress' | 'allows all egress';
  /** The policy that replaces it; undefined if it is removed. */
  readonly instead?: Policy;
}

export function mutantsOf(policy: Policy): Mutant[] {
  const { policyTypes = ['Ingress'] } = policy.spec;
  const opened = (way: 'ingress' | 'egress'): Policy => ({
    ...policy,
    spec: { ...policy.spec, [way]: [...(policy.spec[way] ?? []), {}] },
  });
  const mutants: Mutant[] = [{ policy, change: 'removed' }];
  if (policyTypes.includes('Ingress'))
    mutants.push({ policy, change: 'allows all ingress', instead: opened('ingress') });
  if (policyTypes.includes('Egress'))
    mutants.push({ policy, change: 'allows all egress', instead: opened('egress') });
  return mutants;
}

/** The part of a read object that a person writes, from which it can be created again. */
export function asWritten({ apiVersion, kind, metadata, spec }: Record<string, unknown> & Policy) {
  const { name, namespace } = metadata;
  const { labels, annotations, ownerReferences } = metadata as Record<string, unknown>;
  return {
    apiVersion,
    kind,
    metadata: { name, ...(namespace && { namespace }), labels, annotations, ownerReferences },
    spec,
  };
}

export const nameOf = ({ policy: { metadata }, change }: Mutant): string =>
  `${metadata.namespace}/${metadata.name} ${change}`;
