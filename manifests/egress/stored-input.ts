import { manifestDigest } from '../canonical.ts';
import type { Manifest } from '../rules/manifest.ts';

export type StoredInput = NonNullable<Manifest['stored_inputs']>[string];

/** The signing profiles that there are. With one, the stored value is the key and is never sent. */
export const SIGNING_PROFILES = ['sha256-body', 'sha256-body-base64', 'sha256-request-v1'] as const;
export type SigningProfile = (typeof SIGNING_PROFILES)[number];

export const isSigningProfile = (name: string): name is SigningProfile =>
  SIGNING_PROFILES.some((known) => known === name);

/** Where a stored input goes and in what form: all that a person agreed to by entering it, and no text about it. */
export type Definition = Pick<StoredInput, 'host' | 'routes' | 'header' | 'query' | 'scheme' | 'hmac'>;

export function definitionOf({ host, routes, header, query, scheme, hmac }: StoredInput): Definition {
  return {
    host,
    routes,
    ...(header === undefined ? {} : { header }),
    ...(query === undefined ? {} : { query }),
    ...(scheme === undefined ? {} : { scheme }),
    ...(hmac === undefined ? {} : { hmac }),
  };
}

/** 64 hex digits: the same for two stored inputs exactly when their values go to the same places in the same form. */
export const definitionDigest = (definition: Definition): string => manifestDigest(definition);

/** Headers that frame, route or repeat a request, so that nobody's value may stand in them. */
const FRAMING = new Set([
  'accept-encoding',
  'connection',
  'content-encoding',
  'content-length',
  'content-type',
  'cookie',
  'expect',
  'forwarded',
  'host',
  'if-range',
  'keep-alive',
  'range',
  'te',
  'traceparent',
  'tracestate',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'via',
  'x-original-url',
  'x-rewrite-url',
]);
const FRAMING_PREFIXES = ['proxy-', 'x-forwarded-', 'x-http-method', 'x-method-override'];

/** Whether a header belongs to the connection or to whoever routes the request, not to the request's content. */
export function isFramingHeader(name: string): boolean {
  const lower = name.toLowerCase();
  return FRAMING.has(lower) || FRAMING_PREFIXES.some((prefix) => lower.startsWith(prefix));
}

/**
 * A parameter's name as the most generous server reads it: case, PHP's `a.b` and `a[x]` for `a_b` and `a`, leading
 * spaces and what follows a NUL are all forgotten. Two names that fold to one are one to somebody.
 */
export function foldedParameter(name: string): string {
  const [upToNul = ''] = name.split('\0', 1);
  const [upToBracket = ''] = upToNul.trimStart().split('[', 1);
  return upToBracket.replace(/[. ]/g, '_').toLowerCase();
}

/** Parameters from which some servers take the method of a request, in the place of its first line's. */
const METHOD_NAMES =
  /^(?:_method|[_$]?httpmethod|x[-_]http[-_]method(?:[-_]override)?|x[-_]method[-_]override)$/;

/** Whether a parameter, its name folded and its value decoded, makes another request of one to some servers. */
export const overridesMethod = (folded: string, value = ''): boolean =>
  METHOD_NAMES.test(folded) || (folded === 'method' && /^\s*(?:post|put|patch|delete)\s*$/i.test(value));

/** What keeps a value from being put where a definition says, as the end of the sentence "it …". */
export function slotFault({ header, query, routes }: Definition): string | undefined {
  if (header !== undefined && isFramingHeader(header))
    return `would be put into the header ${header}, which frames requests`;
  if (query === undefined) return undefined;
  const folded = foldedParameter(query);
  if (overridesMethod(folded)) return `would be put into the parameter ${query}, which overrides methods`;
  const selected = routes.some((route) =>
    (route.query ?? []).some(({ name }) => foldedParameter(name) === folded),
  );
  return selected ? `would be put into the parameter ${query}, by which a route is chosen` : undefined;
}
