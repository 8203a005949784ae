import { type Definition, definitionDigest } from '@space/manifests';
import type { SealedInput } from './sealed.ts';

/** A Secret that a person wrote for a stored input. */
export interface Source {
  /** UID and resource version. A different text means that the Secret was written, even if only a label changed. */
  readonly version: string;
  /**
   * The annotation that says what the value was entered for: the digest of a definition, then a text that distinguishes
   * entries.
   */
  readonly entry: string | undefined;
  /** Whether the value is known to differ from the sealed one. */
  readonly changed: boolean;
}

/** What is to be done with a stored input. */
export type InputVerdict =
  /** The sealed value is for this definition, and no newer one was entered for it. */
  | 'bound'
  /** A value was entered that is not sealed yet. */
  | 'seal'
  /** Nobody has entered a value. */
  | 'missing'
  /** The value was entered for another host or in another form. */
  | 'reentry'
  /** The host has returned the value so often that somebody may know it. */
  | 'reflected';

/**
 * Decides about one stored input. A value may be used only for the definition that it was entered for. For a changed
 * definition, or after its host has returned it, a person must enter it again, by the Secret's annotation or with
 * another value. Secrets are also written for other reasons (labels, backups, re-encryption, tools that create them
 * again), and none of those counts as an entry; nor does a manifest that leaves an input out and has it again later.
 */
export function decideInput(
  definition: Definition,
  sealed: SealedInput | undefined,
  source: Source | undefined,
): InputVerdict {
  const wanted = definitionDigest(definition);
  const isHeld = sealed !== undefined && (sealed.reflected === true || sealed.definition !== wanted);
  // A value that was entered for another definition leaves the sealed one of this definition in use.
  const isForThis = source?.entry === undefined || source.entry.split(' ', 1)[0] === wanted;
  const isNew = sealed?.withdrawn === true || source?.version !== sealed?.source;
  if (source && isForThis && (isHeld ? isEntered(sealed, source) : isNew)) return 'seal';
  if (sealed?.reflected) return 'reflected';
  if (!sealed || sealed.withdrawn) return source ? 'reentry' : 'missing';
  return isHeld ? 'reentry' : 'bound';
}

const isEntered = (sealed: SealedInput, { entry, changed }: Source): boolean =>
  changed || (entry !== undefined && entry !== sealed.entry);
