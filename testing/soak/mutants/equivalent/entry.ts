import type { AutomaticMutant } from '../operators.ts';

/** A mutant that no test can detect. */
export interface Equivalent extends Pick<AutomaticMutant, 'file' | 'code' | 'change'> {
  readonly reason: string;
}
