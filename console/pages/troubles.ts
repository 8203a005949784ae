import type { Row } from '../kubernetes/tables.ts';

/** Something of the Space that is not Ready. */
export interface Trouble {
  readonly kind: 'Capsule' | 'Assistant' | 'Program' | 'Node' | 'Probe' | 'Certificate';
  readonly name: string;
  /** Empty for the Space's own parts. */
  readonly capsule: string;
  readonly reason: string;
  /** The operator's message, which ends with what to do. */
  readonly why: string;
  /** The time as Kubernetes writes it; empty if unknown. */
  readonly since: string;
}

export interface Troubles {
  /** Problems that a person has to solve. */
  readonly toRepair: readonly Trouble[];
  /** Objects that become Ready without help. */
  readonly underWay: readonly Trouble[];
  /** Objects that a person has suspended. */
  readonly suspended: readonly Trouble[];
}

export const UNDER_WAY = new Set([
  '',
  'Waiting',
  'Starting',
  'Deleting',
  'Restoring',
  'ProbePending',
  'RetentionGrace',
]);

const isUnderWay = ({ reason }: Trouble) => UNDER_WAY.has(reason);

/**
 * Sorts what is not Ready: the Space's own parts first, then Capsules, since most problems of an Assistant come from
 * its Capsule.
 */
export function troublesOf(
  own: readonly Trouble[],
  capsules: readonly Row[],
  assistants: readonly Row[],
): Troubles {
  const all = [
    ...own,
    ...capsules.map((row) => troubleOf('Capsule', row)),
    ...assistants.map((row) => troubleOf('Assistant', row)),
  ].filter((one) => one !== undefined);
  const isSuspended = ({ reason }: Trouble) => reason === 'Suspended';
  return {
    toRepair: all.filter((one) => !isSuspended(one) && !isUnderWay(one)),
    underWay: all.filter(isUnderWay),
    suspended: all.filter(isSuspended),
  };
}

function troubleOf(kind: 'Capsule' | 'Assistant', row: Row): Trouble | undefined {
  const { name, ready, reason, why, since } = row;
  if (ready === 'True') return undefined;
  return { kind, name, capsule: kind === 'Capsule' ? name : row.capsule, reason, why, since };
}
