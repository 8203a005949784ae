import type { SoakReport } from '../soak.ts';

/** The result of changing one protection alone. */
export interface Tried {
  /** The policy, role, binding or file that was changed. */
  readonly protection: string;
  readonly change: string;
  /** The check that detects it; undefined if none does. */
  readonly shown: string | undefined;
  /** Why no check can detect it. */
  readonly reason: string | undefined;
}

/** Protections of one kind. */
export interface Part {
  readonly name: string;
  /** `only` selects protections by words in their names; an empty list selects all. */
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
  tried.map(({ protection, change, shown, reason }) => ({
    ...{ part, protection, change },
    'shown by': shown ?? (reason === undefined ? 'SURVIVED' : `nothing: ${reason}`),
  }));
