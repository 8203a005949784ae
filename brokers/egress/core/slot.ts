import { basicPairOf, foldedParameter, secretOfPair } from '@space/manifests';
import type { Alphabet } from './scrub.ts';
import type { InputTarget } from './target.ts';

/** Where a value goes. */
export type Slot =
  | { readonly kind: 'header'; readonly name: string; readonly scheme?: string | undefined }
  | { readonly kind: 'query'; readonly name: string };

/** The part of a target behind the host, with the value in its query. */
export function targetWith(target: InputTarget, slot: Slot, value: string | undefined): string {
  const { path, query } = target;
  const own = query === undefined ? path : `${path}?${query}`;
  if (slot.kind !== 'query' || value === undefined) return own;
  const join = query === undefined ? '?' : query.endsWith('&') ? '' : '&';
  return `${own}${join}${slot.name}=${percentEncode(value)}`;
}

/** What the header gets; a scheme is the word before the value. */
export function headerValue(slot: Slot & { kind: 'header' }, value: string): string {
  return slot.scheme === undefined ? value : `${slot.scheme} ${value}`;
}

/** Whether the caller filled the query slot itself, in any spelling. */
export function fillsQuerySlot(target: InputTarget, slot: Slot): boolean {
  if (slot.kind !== 'query') return false;
  const folded = foldedParameter(slot.name);
  return target.parameters.some((parameter) => parameter.folded === folded);
}

/** Everything but RFC 3986 `unreserved` as uppercase escapes. */
export function percentEncode(text: string): string {
  return encodeURIComponent(text).replace(
    /[!'()*]/g,
    (char) => `%${char.charCodeAt(0).toString(16).toUpperCase()}`,
  );
}

/** Of what characters a value's secrets are, by where it goes alone: a pair of the scheme Basic may have spaces. */
export const alphabetOf = (slot: Slot): Alphabet =>
  slot.kind === 'header' && slot.scheme?.toLowerCase() === 'basic' ? 'printable' : 'visible';

/** What of a value must not be told: itself and, where the scheme Basic writes a pair, that pair and its password. */
export function secretsIn(slot: Slot, value: string): readonly string[] {
  const pair = slot.kind === 'header' ? basicPairOf(slot, value) : undefined;
  return pair === undefined ? [value] : [value, pair, secretOfPair(pair)];
}
