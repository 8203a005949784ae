import type { Context } from '../context.ts';
import { type Clocks, type Grace, graceOf } from '../grace.ts';
import type { Capsule, SecretObject } from '../kinds.ts';
import { theSame } from '../last-word.ts';
import { ANNOTATION } from '../names.ts';
import { type BrokerCondition, isProvisioned } from './decide.ts';

/** Pure decisions about the data of a Capsule that is being deleted. */

export interface Fate {
  readonly retain: boolean;
  /** The grace period; nothing is dropped before it ends. */
  readonly grace: Grace | undefined;
}

/** Decides by the state of the Capsule that was just read from the API server. */
export function decideFate(
  { names }: Pick<Context, 'names'>,
  clocks: Clocks,
  capsule: Capsule,
  asked: Capsule | undefined,
): Fate {
  const retain = theSame(asked, capsule).spec.deletionPolicy === 'Retain';
  return { retain, grace: retain ? undefined : graceOf(names, clocks, capsule) };
}

/** The Secret, if it belongs to this Capsule and not to another of the same name. */
export const ownPrincipal = (capsule: Capsule, secret: SecretObject | undefined): SecretObject | undefined =>
  secret?.metadata.annotations?.[ANNOTATION.owner] === capsule.metadata.uid ? secret : undefined;

/** How far the drop has come that this principal authorises. Once it has begun, only the broker knows what is left. */
export function releaseOf(secret: SecretObject): 'not begun' | 'begun' | 'done' {
  const mark = secret.metadata.annotations?.[ANNOTATION.finalized];
  if (mark === undefined) return 'not begun';
  return mark === 'true' ? 'done' : 'begun';
}

/** Whether a broker may have data of the Capsule that is neither dropped nor kept yet. */
export function mustRelease(
  capsule: Capsule,
  condition: BrokerCondition,
  secret: SecretObject | undefined,
): boolean {
  return secret ? releaseOf(secret) !== 'done' : isProvisioned(capsule, condition);
}
