/** The state that an exploration of the custody distinguishes. */
import type { Bounds } from './bounds.ts';
import type { Version } from './decisions.ts';

export type Work = 'change' | 'read' | 'accept' | 'discard';
export type At = 'lock' | 'read anchor' | 'read rows' | 'judge' | 'settle' | 'commit' | 'anchor' | 'answer';

export interface Process {
  readonly work: Work;
  readonly at: At;
  /** The newest answer when it began: its own answer may not be older. */
  readonly floor: number;
  readonly anchor: Version;
  readonly rows: Version;
  readonly next: Version;
  readonly locked: boolean;
  readonly connected: boolean;
  /** It read while something was set back. */
  readonly alarmed: boolean;
}

/** A write of a replica that has ended. */
interface Late {
  readonly over: Version;
  readonly to: Version;
}

export interface State {
  readonly rows: Version;
  readonly anchor: Version;
  readonly pastRows: readonly Version[];
  readonly pastAnchors: readonly Version[];
  readonly processes: readonly (Process | undefined)[];
  readonly late: readonly Late[];
  /** The content of each generation that was in an answer. */
  readonly told: readonly (readonly [generation: number, content: Version])[];
  readonly left: Bounds;
  /** Something was set back and no administrator has decided about it, so an alarm is right. */
  readonly setBack: boolean;
}

/** A server that is restored or restarted knows no connection, and no lock. */
export const LOST = { connected: false, locked: false } as const;

export const put = (state: State, p: number, process: Process | undefined): State => ({
  ...state,
  processes: state.processes.with(p, process),
});

export const among = (all: readonly Version[], one: Version): readonly Version[] =>
  all.includes(one) ? all : [...all, one];

export function keyOf({
  rows,
  anchor,
  pastRows,
  pastAnchors,
  processes,
  late,
  told,
  left,
  setBack,
}: State): string {
  const alike = processes
    .map((process) => {
      if (process === undefined) return '-';
      const { work, at, floor, anchor: a, rows: r, next, locked, connected, alarmed } = process;
      return `${work[0]}${at}${floor}.${a}.${r}.${next}${locked ? 'l' : ''}${connected ? 'c' : ''}${alarmed ? 'b' : ''}`;
    })
    .sort();
  return [
    `${rows} ${anchor} ${setBack ? 'b' : ''}`,
    pastRows.toSorted((a, b) => a - b).join(),
    pastAnchors.toSorted((a, b) => a - b).join(),
    alike.join(';'),
    late
      .map(({ over, to }) => `${over}>${to}`)
      .sort()
      .join(),
    told
      .map(([generation, content]) => `${generation}=${content}`)
      .sort()
      .join(),
    Object.values(left).join(),
  ].join('|');
}
