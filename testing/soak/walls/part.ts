import type { SoakReport } from '../soak.ts';

/** What became of one wall that was changed alone. */
export interface Tried {
  readonly wall: string;
  readonly change: string;
  /** The check that shows it; undefined where none does. */
  readonly shown: string | undefined;
  /** Why none can. */
  readonly reason: string | undefined;
}

/** Walls of one kind. */
export interface Part {
  readonly name: string;
  /** `only` are words of which a wall's name has one, or begins with it; none is every wall. */
  tryAll(options: { readonly quick: boolean; readonly only: readonly string[] }): Promise<readonly Tried[]>;
}

export interface Count {
  readonly mutants: number;
  readonly shown: number;
  readonly explained: number;
  readonly survived: number;
}

export function countOf(tried: readonly Tried[]): Count {
  const rest = tried.filter(({ shown }) => shown === undefined);
  const explained = rest.filter(({ reason }) => reason !== undefined).length;
  return {
    mutants: tried.length,
    shown: tried.length - rest.length,
    explained,
    survived: rest.length - explained,
  };
}

export const rowsOf = (part: string, tried: readonly Tried[]): SoakReport['rows'] =>
  tried.map(({ wall, change, shown, reason }) => ({
    ...{ part, wall, change },
    'shown by': shown ?? (reason === undefined ? 'SURVIVED' : `nothing: ${reason}`),
  }));
