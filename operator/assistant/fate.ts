import type { Context } from '../context.ts';
import { type Clocks, type Grace, graceOf } from '../grace.ts';
import type { Assistant, Capsule, SecretObject } from '../kinds.ts';
import { theSame } from '../last-word.ts';
import { databaseBefore, registeredOwner } from './claim.ts';
import { deletionPolicyOf } from './retain.ts';

/** Pure decisions about the data of an Assistant that is being deleted. */

/**
 * Whether the data belongs to this Assistant. The claim Secret names the owner; without that Secret the status decides,
 * unless another Assistant with the id may have had a database, too. One that only waits for the id must not get the data.
 */
export function ownsDatabase(
  assistant: Assistant,
  claim: SecretObject | undefined,
  rivals: readonly Assistant[],
): boolean {
  const { uid } = assistant.metadata;
  const owner = registeredOwner(claim);
  if (owner !== undefined) return owner === uid;
  const others = rivals.filter(({ metadata }) => metadata.uid !== uid);
  return databaseBefore(assistant) !== undefined && !others.some(databaseBefore);
}

/**
 * Whether the data stays because the whole Capsule is deleted with the policy Retain. Its namespace goes, too, and no
 * broker is called for this Assistant.
 */
export function staysWithCapsule(assistant: Assistant, capsule: Capsule | undefined): boolean {
  return (
    capsule?.metadata.deletionTimestamp !== undefined && deletionPolicyOf(assistant, capsule) === 'Retain'
  );
}

/** What becomes of the data: it is dropped if it is neither retained nor in its grace period. */
export interface Fate {
  readonly retained: boolean;
  readonly grace: Grace | undefined;
}

/** Decides by the state of the Assistant and its Capsule that was just read from the API server. */
export function decideFate(
  { names }: Pick<Context, 'names'>,
  clocks: Clocks,
  assistant: Assistant,
  { asked, capsule }: { readonly asked: Assistant | undefined; readonly capsule: Capsule | undefined },
): Fate {
  // If nobody deleted the Assistant (its finalizer was removed by force), the data waits for the next Assistant of the
  // id, or for the end of the Capsule.
  const isDeleted = assistant.metadata.deletionTimestamp !== undefined;
  const retained = !isDeleted || deletionPolicyOf(theSame(asked, assistant), capsule) === 'Retain';
  return { retained, grace: retained ? undefined : graceOf(names, clocks, assistant) };
}
