import type { Row } from '../kubernetes/tables.ts';

/** Something of the Space that is not Ready. */
export interface Trouble {
  readonly kind: 'Capsule' | 'Assistant';
  readonly name: string;
  readonly capsule: string;
  readonly reason: string;
  /** What the operator says of it, which ends with what to do. */
  readonly why: string;
}

export interface Troubles {
  /** What somebody has to do something about. */
  readonly toRepair: readonly Trouble[];
  /** What goes on by itself. */
  readonly underWay: readonly Trouble[];
  /** What somebody wished to stand still. */
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

/** Sorts what is not Ready, Capsules first: most troubles of an Assistant are its Capsule's. */
export function troublesOf(capsules: readonly Row[], assistants: readonly Row[]): Troubles {
  const all = [
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

function troubleOf(kind: Trouble['kind'], row: Row): Trouble | undefined {
  const { name, ready, reason, why } = row;
  if (ready === 'True') return undefined;
  return { kind, name, capsule: kind === 'Capsule' ? name : row.capsule, reason, why };
}
