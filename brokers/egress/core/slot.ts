import { basicPairOf, foldedParameter, parameterReadings, secretOfPair } from '@space/manifests';
import { percentEncode } from './percent-encode.ts';
import type { Alphabet } from './scrub.ts';
import type { InputTarget } from './target.ts';

/** Where a value is put. */
export type Slot =
  | { readonly kind: 'header'; readonly name: string; readonly scheme?: string | undefined }
  | { readonly kind: 'query'; readonly name: string };

/** The target of the request to the host, with the value in its query if the slot is there. */
export function targetWith(target: InputTarget, slot: Slot, value: string | undefined): string {
  const { path, query } = target;
  const own = query === undefined ? path : `${path}?${query}`;
  if (slot.kind !== 'query' || value === undefined) return own;
  const join = query === undefined ? '?' : query.endsWith('&') ? '' : '&';
  return `${own}${join}${slot.name}=${percentEncode(value)}`;
}

/** The header's value, with the scheme before the stored value. */
export function headerValue(slot: Slot & { kind: 'header' }, value: string): string {
  return slot.scheme === undefined ? value : `${slot.scheme} ${value}`;
}

/** Whether the caller filled the query slot itself, in any spelling. */
export function fillsQuerySlot(target: InputTarget, slot: Slot): boolean {
  if (slot.kind !== 'query') return false;
  const folded = foldedParameter(slot.name);
  return target.parameters.some(({ decoded }) => parameterReadings(decoded).includes(folded));
}

/** The characters of a value's secrets: a pair of the scheme Basic may contain spaces. */
export const alphabetOf = (slot: Slot): Alphabet =>
  slot.kind === 'header' && slot.scheme?.toLowerCase() === 'basic' ? 'printable' : 'visible';

/** What an answer must not contain: the value and, with the scheme Basic, the encoded pair and the password. */
export function secretsIn(slot: Slot, value: string): readonly string[] {
  const pair = slot.kind === 'header' ? basicPairOf(slot, value) : undefined;
  return pair === undefined ? [value] : [value, pair, secretOfPair(pair)];
}
