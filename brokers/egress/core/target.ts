import { isPlainParameter, overridesMethod } from '@space/manifests';

/** One parameter of a query as written. */
export interface Parameter {
  readonly name: string;
  readonly value: string;
  /** The decoded name. */
  readonly decoded: string;
}

/** A request target of the form `/i/<key>/<path>?<query>`, byte for byte as received. */
export interface InputTarget {
  readonly key: string;
  /** From the slash after the key to the question mark; the same text is matched and sent. */
  readonly path: string;
  readonly segments: readonly string[];
  /** Without the question mark; undefined when there is none. */
  readonly query: string | undefined;
  readonly parameters: readonly Parameter[];
}

const LONGEST_PATH = 2_048;
const LONGEST_TARGET = 8_192;
/** The most parameters of a query, each of which is read in several ways; 8 KiB have room for four thousand. */
const MOST_PARAMETERS = 512;
const INPUT = /^\/i\/([a-z][a-z0-9]*(?:-[a-z0-9]+)*)(\/[^?]*)(?:\?(.*))?/s;

/** RFC 3986 `pchar` without `;` (which starts a matrix parameter to some) and with escapes in their canonical form. */
const SEGMENT = /^(?:[A-Za-z0-9._~!$&'()*+,=:@-]|%[0-9A-F]{2})+$/;
/**
 * Like the above, with `/`, `?`, characters that browsers and `fetch` do not escape, and lower-case escapes; without
 * `;`, which separates parameters for some servers.
 */
const QUERY = /^(?:[A-Za-z0-9._~!$'()*+,=:@/?|^{}[\]-]|%[0-9A-Fa-f]{2})+$/;
/** Escapes of characters that need none, which would give one resource two spellings. */
const UNRESERVED_ESCAPE = /%(?:2D|2E|5F|7E|3[0-9]|4[1-9A-F]|5[0-9A]|6[1-9A-F]|7[0-9A])/;
/**
 * Escapes of `%`, `/`, `\`, `;`, of the ends of a path (`?`, `#`) and of control characters: a server may decode them
 * twice.
 */
const DANGEROUS_ESCAPE = /%(?:25|2F|5C|3B|3F|23|[01][0-9A-F]|7F)/;
/**
 * Invisible characters of a segment: some servers remove white space, also as forms encode it, so that only dots are
 * left.
 */
const UNSEEN = /[\s\p{Cf}+]/gu;
const ONLY_DOTS = /^\.*$/;
/** Characters that Windows converts to a slash, a backslash or a percent sign when a program asks for bytes. */
const BEST_FITS = /[\u2044\u2215\u2216\u066a]/;
/** ASP.NET removes a session id anywhere from a path: `/a/(S(x))/b` becomes `/a/b`. */
const SESSION = /^\([A-Za-z]\(/;
const strictUtf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

/**
 * Parses a raw request target. It is `ambiguous` if two servers might read it differently; nothing is ever rewritten.
 * `not-found` means that it does not have the form of an input's target.
 */
export function parseInputTarget(raw: string): InputTarget | 'ambiguous' | 'not-found' {
  if (!raw.startsWith('/i/')) return 'not-found';
  if (raw.length > LONGEST_TARGET) return 'ambiguous';
  const [, key, path, query] = INPUT.exec(raw) ?? [];
  if (key === undefined || path === undefined) return 'not-found';
  const segments = path.slice(1).split('/');
  if (path.length > LONGEST_PATH || !segments.every(isPlainSegment)) return 'ambiguous';
  const parameters = query === undefined ? [] : parseQuery(query);
  return parameters === undefined ? 'ambiguous' : { key, path, segments, query, parameters };
}

/** Names the part of a target that is ambiguous, without repeating it. */
export function placeOfAmbiguity(raw: string): string {
  const [, , path = '/', query] = INPUT.exec(raw) ?? [];
  if (raw.length > LONGEST_TARGET || path.length > LONGEST_PATH) return 'The target is too long.';
  const segments = path.slice(1).split('/');
  const segment = segments.findIndex((one) => !isPlainSegment(one));
  if (segment >= 0)
    return `Segment ${segment + 1} of the path${segments[segment] === '' ? ' is empty' : ''}.`;
  const pairs = query === undefined ? [] : pairsOf(query);
  if (pairs.length > MOST_PARAMETERS) return 'The query has too many parameters.';
  const parameter = pairs.findIndex((pair) => parseQuery(pair) === undefined);
  return parameter >= 0
    ? `Parameter ${parameter + 1} of the query.`
    : 'A parameter by which a route is chosen.';
}

function isPlainSegment(segment: string): boolean {
  // A segment without escapes is ASCII, which decoding and normalising leave unchanged.
  if (!segment.includes('%')) return SEGMENT.test(segment) && isSeenAlike(segment);
  if (!SEGMENT.test(segment) || UNRESERVED_ESCAPE.test(segment) || DANGEROUS_ESCAPE.test(segment))
    return false;
  const decoded = decode(segment);
  if (decoded === undefined || BEST_FITS.test(decoded)) return false;
  // Full-width and similar characters become ASCII in servers that normalise.
  const normal = decoded.normalize('NFKC');
  return isSeenAlike(normal) && !/[/\\%;?#]/.test(normal);
}

const isSeenAlike = (segment: string): boolean =>
  !ONLY_DOTS.test(segment.replace(UNSEEN, '')) && !SESSION.test(segment);

/** Programs that build a query in a loop leave one `&` at the end. */
const pairsOf = (query: string): readonly string[] => query.replace(/(?<=.)&$/, '').split('&');

function parseQuery(query: string): readonly Parameter[] | undefined {
  const pairs = pairsOf(query);
  if (pairs.length > MOST_PARAMETERS) return undefined;
  const parameters: Parameter[] = [];
  for (const pair of pairs) {
    if (!QUERY.test(pair)) return undefined;
    const equals = pair.indexOf('=');
    const name = equals < 0 ? pair : pair.slice(0, equals);
    const value = equals < 0 ? '' : pair.slice(equals + 1);
    const decoded = decode(name.replaceAll('+', '%20'));
    if (decoded === undefined || !isPlainParameter(decoded)) return undefined;
    // Only the request line may contain the method of a request.
    if (overridesMethod(decoded, decode(value.replaceAll('+', '%20')))) return undefined;
    parameters.push({ name, value, decoded });
  }
  return parameters;
}

/** Decodes once; undefined if the result is not UTF-8 or contains a control character. */
function decode(text: string): string | undefined {
  if (!text.includes('%')) return text;
  const bytes = Buffer.from(
    text.replace(/%([0-9A-Fa-f]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
    'latin1',
  );
  try {
    const decoded = strictUtf8.decode(bytes);
    return /[\u0000-\u001f\u007f-\u009f]/.test(decoded) ? undefined : decoded;
  } catch {
    return undefined;
  }
}
