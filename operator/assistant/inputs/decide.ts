import { type Definition, definitionDigest } from '@space/manifests';
import type { SealedInput } from './sealed.ts';

/** A Secret that a person wrote, when it is there. */
export interface Source {
  /** UID and resource version: another text means that the Secret was written, be it a label of it. */
  readonly version: string;
  /** What its value was entered for, as its annotation says: a definition's digest, and then what tells entries apart. */
  readonly entry: string | undefined;
  /** Whether its value is known to be another than the sealed one. */
  readonly changed: boolean;
}

/** What is to be done with a stored input. */
export type InputVerdict =
  /** Its sealed value is for this definition and the newest that was entered for it. */
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
 * A value belongs to the definition that it was entered for. Only a person who enters it hands it to a changed one, or to
 * a host that told it: they say so in the Secret's annotation, or put another value there. A Secret is written for many
 * other reasons (labels, backups, encryption anew, a tool that makes it again), which hand nothing over.
 */
export function decideInput(
  definition: Definition,
  sealed: SealedInput | undefined,
  source: Source | undefined,
): InputVerdict {
  const wanted = definitionDigest(definition);
  const isHeld = sealed !== undefined && (sealed.reflected === true || sealed.definition !== wanted);
  // Whoever enters it for another definition leaves what is sealed for this one as it is.
  const isForThis = source?.entry === undefined || source.entry.split(' ', 1)[0] === wanted;
  if (source && isForThis && (isHeld ? isEntered(sealed, source) : source.version !== sealed?.source))
    return 'seal';
  if (!sealed) return source ? 'reentry' : 'missing';
  if (sealed.reflected) return 'reflected';
  return isHeld ? 'reentry' : 'bound';
}

const isEntered = (sealed: SealedInput, { entry, changed }: Source): boolean =>
  changed || (entry !== undefined && entry !== sealed.entry);
