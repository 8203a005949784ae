import { isFramingHeader } from '@space/manifests';
import { mentionsPrincipal, type RawHeader } from './credentials.ts';
import { sealedTag, type TagSeal } from './entity-tags.ts';
import { Problem } from './problem.ts';
import type { Scrubber } from './scrub.ts';
import type { Slot } from './slot.ts';

/**
 * Headers that are passed on in requests with a stored value: those about content, caching, tracing and retries, and
 * those in which common SDKs identify themselves and the API's version. Any other header could be a second credential,
 * and with an account of its own at an allowed host a caller could send data out.
 */
const PASSED = new Set([
  'accept',
  'accept-language',
  'anthropic-beta',
  'anthropic-dangerous-direct-browser-access',
  'api-version',
  'cache-control',
  'content-disposition',
  'content-encoding',
  'content-language',
  'content-length',
  'content-md5',
  'content-type',
  'date',
  'digest',
  'idempotency-key',
  'if-match',
  'if-modified-since',
  'if-none-match',
  'if-unmodified-since',
  'last-event-id',
  'mcp-protocol-version',
  'openai-beta',
  'openai-organization',
  'openai-project',
  'origin',
  'pragma',
  'prefer',
  'referer',
  'request-id',
  'soapaction',
  'traceparent',
  'tracestate',
  'user-agent',
  'x-amzn-trace-id',
  'x-client-request-id',
  'x-correlation-id',
  'x-goog-api-client',
  'x-idempotency-key',
  'x-request-id',
  'x-requested-with',
]);
/** Headers for API versions (`anthropic-version`, `x-github-api-version`) and of SDKs that Stainless generates. */
const PASSED_FAMILIES = /^(?:[a-z][a-z-]{0,40}-version|x-stainless-[a-z-]{1,40})$/;

const isKnown = (name: string): boolean => PASSED.has(name) || PASSED_FAMILIES.test(name);

/**
 * The most headers of a request or an answer. Servers have limits of about a hundred; each header takes the same time
 * to read and scrub, however short it is, and all are processed in one turn.
 */
export const MOST_HEADERS = 256;

/** The name as CGI and WSGI read it: for some servers `X_Api.Key` is `X-Api-Key`. */
const folded = (lower: string): string => lower.replace(/[_.]/g, '-');

const NEVER = new Set([
  'authorization',
  'cookie',
  'proxy-authorization',
  'content-length',
  'accept-encoding',
]);

/** Whether an operator may add a header to those that are passed on. */
export const mayBePassed = (name: string): boolean =>
  /^[a-z0-9](?:[a-z0-9-]{0,62}[a-z0-9])?$/.test(name) && !NEVER.has(name) && !isFramingHeader(name);

/** Whether a request's header is passed on, by its name in lower case: the known ones, and those in `more`. */
export function passedWith(more: readonly string[]): (name: string) => boolean {
  const added = new Set(more);
  return (name) => isKnown(name) || added.has(name);
}

/**
 * Headers of an answer that are not returned: hop-by-hop ones, those that change the caller's next request, and digests.
 * A host makes these over the value where the caller gets stars, who could try guesses on them without asking anybody.
 */
const NOT_RETURNED = new Set([
  'alt-svc',
  'connection',
  'content-digest',
  'content-md5',
  'content-sha256',
  'digest',
  'keep-alive',
  // This header tells a caller that the gateway itself has refused.
  'platform-egress-error',
  'proxy-authenticate',
  'proxy-authentication-info',
  'proxy-connection',
  'repr-digest',
  'set-cookie',
  'te',
  'trailer',
  'transfer-encoding',
  'unencoded-digest',
  'upgrade',
  'x-content-digest',
  'x-content-md5',
  'x-content-sha256',
]);

/**
 * The caller's headers as they go on. Framing headers are ours to make; the principal is stripped wherever it stands.
 * @throws Problem `slot_conflict` when the caller brings a credential of its own, in the slot or as `Authorization`, in
 * whatever spelling: with somebody else's account, an allowed host is a way out.
 */
export function requestHeaders(
  headers: readonly RawHeader[],
  slot: Slot,
  passes: (name: string) => boolean,
): string[] {
  const dropped = connectionNamed(headers);
  const slotName = slot.kind === 'header' ? folded(slot.name.toLowerCase()) : undefined;
  const passed: string[] = [];
  for (const { name, lower, value } of headers) {
    if (mentionsPrincipalAnyhow(value)) continue;
    const plain = folded(lower);
    if (plain === slotName || plain === 'authorization')
      throw new Problem('slot_conflict', {
        detail: 'A header in which the stored input goes, or a credential.',
      });
    if (passes(lower) && !dropped.has(lower)) passed.push(name, value);
  }
  passed.push('accept-encoding', 'identity');
  return passed;
}

/** Whether the value mentions a principal, also in the base64 of Basic credentials. */
function mentionsPrincipalAnyhow(value: string): boolean {
  if (mentionsPrincipal(value)) return true;
  const basic = /^basic +([A-Za-z0-9+/=_-]+)$/i.exec(value.trim())?.[1];
  return basic !== undefined && mentionsPrincipal(Buffer.from(basic, 'base64').toString('latin1'));
}

/** Character sets in which ASCII is encoded as ASCII; in `Accept` a caller may ask a host for others. */
const ASCII_IN_IT =
  /^(?:utf-?8(?:mb[34])?|(?:us-)?ascii|iso[-_]?8859[-_]\d{1,2}(?:-[ei])?|latin-?\d|windows-(?:874|125\d)|cp125\d|koi8-[ru]|gbk|gb2312|gb18030|big5(?:-hkscs)?|euc-(?:jp|kr|tw)|shift[-_]jis)?$/i;

const isReadable = (contentType: string): boolean =>
  Array.from(contentType.matchAll(/charset\*?\s*=[\s"']*([^\s"';,]*)/gi)).every(([, name = '']) =>
    ASCII_IN_IT.test(name),
  );

/**
 * Whether a server that decodes the query in the content type's character set, as Django does, reads it as ASCII: in
 * UTF-7 `+ACY-` is `&`, and in IBM037 letters have other bytes.
 */
export const isQueryAscii = (headers: readonly RawHeader[]): boolean =>
  headers.every(({ lower, value }) => {
    if (lower !== 'content-type') return true;
    const named = [...value.matchAll(/;[ \t]*charset=(?:"([\w-]*)"|([\w-]*))[ \t]*(?=;|$)/gi)];
    const mentioned = value.match(/charset/gi) ?? [];
    return (
      named.length === mentioned.length &&
      named.every(([, quoted = '', bare = '']) => ASCII_IN_IT.test(quoted || bare))
    );
  });

/** Whether an answer can be scrubbed: it must be readable, and complete, since a part may contain half of a value. */
export function isScannable(status: number, raw: readonly RawHeader[]): boolean {
  const codings = raw.filter(({ lower }) => lower === 'transfer-encoding');
  return (
    status !== 206 &&
    codings.length <= 1 &&
    codings.every(({ value }) => /^\s*chunked\s*$/i.test(value)) &&
    raw.every(({ lower, value }) => lower !== 'content-encoding' || /^\s*(?:identity\s*)?$/i.test(value)) &&
    raw.every(({ lower, value }) => lower !== 'content-type' || isReadable(value))
  );
}

/**
 * The upstream's headers for the caller, with stars in place of the value. Of several entity tags only the first is
 * returned, since each is sealed with two MACs and an answer has one.
 */
export function responseHeaders(
  raw: readonly RawHeader[],
  scrubber: Scrubber,
  sealTag: TagSeal['seal'],
): string[] {
  const dropped = connectionNamed(raw);
  const returned: string[] = [];
  let tagged = false;
  for (const { name, lower, value } of raw) {
    if (NOT_RETURNED.has(folded(lower)) || dropped.has(lower)) continue;
    if (lower === 'etag' && tagged) continue;
    tagged ||= lower === 'etag';
    const clean = scrubber.text(value);
    returned.push(scrubber.text(name), lower === 'etag' ? sealedTag(clean, sealTag) : clean);
  }
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
  // Content-Length frames the body, whatever a Connection header says.
  names?.delete('content-length');
  return names ?? NONE;
}
