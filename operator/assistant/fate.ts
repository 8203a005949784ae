import type { Context } from '../context.ts';
import { type Grace, graceOf } from '../grace.ts';
import type { Assistant, Capsule, SecretObject } from '../kinds.ts';
import { theSame } from '../last-word.ts';
import { hadDatabase, registeredOwner } from './claim.ts';
import { deletionPolicyOf } from './retain.ts';

/** Pure decisions about the data of an Assistant that is being deleted. */

/** The claim Secret names the owner. Without it the status decides, unless a rival asks. */
export function ownsDatabase(
  assistant: Assistant,
  claim: SecretObject | undefined,
  rivals: readonly Assistant[],
): boolean {
  const { uid } = assistant.metadata;
  const owner = registeredOwner(claim);
  if (owner !== undefined) return owner === uid;
  return hadDatabase(assistant) && rivals.every(({ metadata }) => metadata.uid === uid);
}

/** A Capsule that goes and keeps takes its namespace with it, and no broker is asked for anything. */
export function staysWithCapsule(assistant: Assistant, capsule: Capsule | undefined): boolean {
  return (
    capsule?.metadata.deletionTimestamp !== undefined && deletionPolicyOf(assistant, capsule) === 'Retain'
  );
}

/** Neither retained nor in its grace, the data is dropped. */
export interface Fate {
  readonly retained: boolean;
  readonly grace: Grace | undefined;
}

/** Decides by the current state of the Assistant and its Capsule at the API server. */
export function decideFate(
  context: Pick<Context, 'names' | 'now'>,
  assistant: Assistant,
  asked: Assistant | undefined,
  capsule: Capsule | undefined,
): Fate {
  // What nobody deleted, and only lacks its Assistant, waits for the next of its id, or for the end of its Capsule.
  const isDeleted = assistant.metadata.deletionTimestamp !== undefined;
  const retained = !isDeleted || deletionPolicyOf(theSame(asked, assistant), capsule) === 'Retain';
  return { retained, grace: retained ? undefined : graceOf(context, assistant) };
}
