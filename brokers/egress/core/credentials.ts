import { isToken } from '@space/broker-kit';

/** A header as received: its index in the raw headers, name and value. */
export interface RawHeader {
  readonly name: string;
  readonly lower: string;
  readonly value: string;
}

export function rawHeadersOf(raw: readonly string[]): RawHeader[] {
  const headers: RawHeader[] = [];
  for (let i = 0; i + 1 < raw.length; i += 2) {
    const name = raw[i] ?? '';
    headers.push({ name, lower: name.toLowerCase(), value: raw[i + 1] ?? '' });
  }
  return headers;
}

const USER = 'egr';
const PREFIX = 'spc_egr_';
const BASIC = /^\s*basic /i;

/** The egress principal in a header's value: alone, after a scheme, or as either part of Basic credentials. */
export function principalIn(value: string): string | undefined {
  // Most headers are about something else.
  if (!value.includes(PREFIX) && !BASIC.test(value)) return undefined;
  const words = value.trim().split(/ +/);
  const last = words.at(-1) ?? '';
  if (words.length > 2) return undefined;
  if (isToken(last, 'egr')) return last;
  if (words[0]?.toLowerCase() !== 'basic' || words.length !== 2) return undefined;
  const pair = Buffer.from(last, 'base64').toString('latin1');
  const [user = '', password = ''] = pair.split(':', 2);
  if (isToken(password, 'egr') && (user === USER || user === '')) return password;
  return isToken(user, 'egr') && password === '' ? user : undefined;
}

/** Whether a text contains something like a principal, which must never be sent to an upstream. */
export const mentionsPrincipal = (text: string): boolean => text.includes(PREFIX);
