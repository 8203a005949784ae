import { type Definition, definitionDigest } from '@space/manifests';
import type { SealedInput } from './sealed.ts';

/** A Secret that a person wrote, when it is there. */
export interface Source {
  /** UID and resource version: another text means that somebody entered a value. */
  readonly version: string;
}

/** What is to be done with a stored input. */
export type InputVerdict =
  /** Its sealed value is for this definition and the newest there is. */
  | 'bound'
  /** A value was entered that is not sealed yet. */
  | 'seal'
  /** Nobody has entered a value. */
  | 'missing'
  /** The value was entered to go elsewhere, or in another form. */
  | 'reentry'
  /** Its host told the value so often that it may be known. */
  | 'reflected';

/**
 * A value belongs to the definition that it was entered for. Only an act of a person, another version of the Secret,
 * hands it to a changed one; the same Secret under a changed definition is used for nothing.
 */
export function decideInput(
  definition: Definition,
  sealed: SealedInput | undefined,
  source: Source | undefined,
): InputVerdict {
  if (source && source.version !== sealed?.source) return 'seal';
  if (!sealed) return 'missing';
  if (sealed.reflected) return 'reflected';
  return sealed.definition === definitionDigest(definition) ? 'bound' : 'reentry';
}
