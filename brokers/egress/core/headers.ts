import { isFramingHeader } from '@space/manifests';
import { mentionsPrincipal, type RawHeader } from './credentials.ts';
import { Problem } from './problem.ts';
import type { Scrubber } from './scrub.ts';
import type { Slot } from './slot.ts';

/** Framing headers that are about content, and pass. */
const CONTENT = new Set(['content-type', 'content-encoding', 'traceparent', 'tracestate']);
/** Of an upstream's answer: hop by hop, or a way to make the caller come back differently. */
const NOT_RETURNED = new Set([
  'alt-svc',
  'connection',
  'keep-alive',
  // By which a caller knows that the gateway itself said no.
  'platform-egress-error',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-connection',
  'set-cookie',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
]);

/**
 * The caller's headers as they go on. Framing headers are ours to make; the principal is stripped wherever it stands.
 * @throws Problem `slot_conflict` when the caller brings a credential of its own, in the slot or as `Authorization`:
 * with somebody else's account, an allowed host is a way out.
 */
export function requestHeaders(headers: readonly RawHeader[], slot: Slot): string[] {
  const dropped = connectionNamed(headers);
  const slotName = slot.kind === 'header' ? slot.name.toLowerCase() : undefined;
  const passed: string[] = [];
  for (const { name, lower, value } of headers) {
    if (mentionsPrincipalAnyhow(value)) continue;
    if (lower === slotName || lower === 'authorization') throw new Problem('slot_conflict');
    if (lower === 'content-length') passed.push(name, value);
    else if (!dropped.has(lower) && (!isFramingHeader(lower) || CONTENT.has(lower))) passed.push(name, value);
  }
  passed.push('accept-encoding', 'identity');
  return passed;
}

/** Plain, or in the base64 of Basic credentials. */
function mentionsPrincipalAnyhow(value: string): boolean {
  if (mentionsPrincipal(value)) return true;
  const basic = /^basic +([A-Za-z0-9+/=_-]+)$/i.exec(value.trim())?.[1];
  return basic !== undefined && mentionsPrincipal(Buffer.from(basic, 'base64').toString('latin1'));
}

/** The upstream's headers as the caller gets them, with stars where the value was. */
export function responseHeaders(raw: readonly RawHeader[], scrubber: Scrubber): string[] {
  const dropped = connectionNamed(raw);
  const returned: string[] = [];
  for (const { name, lower, value } of raw)
    if (!NOT_RETURNED.has(lower.replace(/[_.]/g, '-')) && !dropped.has(lower))
      returned.push(scrubber.text(name), scrubber.text(value));
  return returned;
}

const NONE: ReadonlySet<string> = new Set();

function connectionNamed(headers: readonly RawHeader[]): ReadonlySet<string> {
  let names: Set<string> | undefined;
  for (const { lower, value } of headers) {
    if (lower !== 'connection') continue;
    names ??= new Set();
    for (const name of value.split(',')) names.add(name.trim().toLowerCase());
  }
  // It frames the body whatever a Connection header says of it.
  names?.delete('content-length');
  return names ?? NONE;
}
