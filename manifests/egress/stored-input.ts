import { manifestDigest } from '../canonical.ts';
import type { Manifest } from '../rules/manifest.ts';
import { foldedParameter, overridesMethod, parameterReadings } from './parameter.ts';

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

/** Headers that frame, route or repeat a request, so that no value may be put there. */
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
 * What keeps a value from being put where a definition says, as the end of the sentence "it …". A route that the gateway
 * would never find is told, too: a parameter that overrides methods, or is another one's in other letters, is refused.
 */
export function slotFault({ header, query, routes }: Definition): string | undefined {
  if (header !== undefined && isFramingHeader(header))
    return `would be put into the header ${header}, which frames requests`;
  const fault = routes.map(routeFault).find((found) => found !== undefined);
  if (fault !== undefined) return fault;
  if (query === undefined) return undefined;
  const folded = foldedParameter(query);
  if (overridesMethod(query)) return `would be put into the parameter ${query}, which overrides methods`;
  const selected = routes.some((route) =>
    (route.query ?? []).some(({ name }) => parameterReadings(name).includes(folded)),
  );
  return selected ? `would be put into the parameter ${query}, by which a route is chosen` : undefined;
}

function routeFault({ query = [] }: Definition['routes'][number]): string | undefined {
  const overriding = query.find(({ name, values }) => values.every((value) => overridesMethod(name, value)));
  if (overriding !== undefined)
    return `has a route that is chosen by the parameter ${overriding.name}, which overrides methods`;
  const spelt = new Map(query.map(({ name }) => [foldedParameter(name), name]));
  const other = query.find(({ name }) => spelt.get(foldedParameter(name)) !== name);
  return other === undefined
    ? undefined
    : `has a route that is chosen by the parameters ${other.name} and ${spelt.get(foldedParameter(other.name))}, which are one to some servers`;
}
