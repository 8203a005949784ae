import type { IncomingMessage } from 'node:http';
import { METHODS } from '@space/contracts/egress';
import { mentionsPrincipal, type RawHeader } from '../core/credentials.ts';
import { isQueryAscii, MOST_HEADERS, requestHeaders } from '../core/headers.ts';
import { Problem } from '../core/problem.ts';
import type { Method } from '../core/route.ts';
import { fillsQuerySlot } from '../core/slot.ts';
import { type InputTarget, parseInputTarget, placeOfAmbiguity } from '../core/target.ts';
import type { LiveInput, Tenant } from '../policies/tenant.ts';
import { announcedLength } from './body.ts';
import type { DataLimits } from './limits.ts';
import type { Line } from './record.ts';
import type { Reflections } from './reflections.ts';

export interface AdmissionOptions {
  /** Names of this gateway that callers use in requests, in lower case and without a port. */
  readonly names: ReadonlySet<string>;
  /** Whether a header of a request, by its name in lower case, is passed on. */
  readonly passes: (name: string) => boolean;
  readonly reflections: Reflections;
  readonly limits: DataLimits;
}

/** A request whose caller is authenticated. */
interface Identified {
  readonly request: IncomingMessage;
  readonly headers: readonly RawHeader[];
  readonly tenant: Tenant;
  readonly line: Line;
}

/** A request that may be sent; everything that is decided before its value is opened. */
export interface Admitted {
  readonly tenant: Tenant;
  readonly input: LiveInput;
  readonly method: Method;
  readonly target: InputTarget;
  readonly headers: string[];
}

/** Checks a request in a fixed order; no refusal needs the value, DNS or the upstream. @throws Problem */
export function admit(
  { names, passes, reflections, limits }: AdmissionOptions,
  { request, headers, tenant, line }: Identified,
): Admitted {
  if (headers.length > MOST_HEADERS) throw new Problem('header_too_large');
  if (!isPlainlyFramed(request)) throw new Problem('invalid_request');
  const raw = request.url ?? '';
  const target = targetOf(raw, headers, names);
  const input = tenant.inputs.get(target.key);
  if (input === undefined) throw new Problem('not_found');
  line.input = input;
  const method = METHODS.find((known) => known === request.method);
  if (method === undefined) throw new Problem('method_not_allowed');
  line.method = method;
  if (fillsQuerySlot(target, input.slot) || mentionsPrincipal(raw)) throw new Problem('slot_conflict');
  const route = input.match(method, target);
  if (route === 'ambiguous') throw ambiguous(raw);
  if (route === 'denied') throw new Problem('route_denied');
  line.route = route;
  const passed = requestHeaders(headers, input.slot, passes);
  if (!input.usable) throw new Problem('input_unavailable');
  if (reflections.isSuspended(tenant, input)) throw new Problem('input_suspended');
  if (announcedLength(request) > limits.bodyBytes) throw new Problem('too_large');
  return { tenant, input, method, target, headers: passed };
}

/** The input and the path that the target names, of a request to this gateway by one of its names. @throws Problem */
function targetOf(raw: string, headers: readonly RawHeader[], names: AdmissionOptions['names']): InputTarget {
  if (!raw.startsWith('/')) throw new Problem('plain_http_denied');
  const hosts = headers.filter(({ lower }) => lower === 'host');
  const [named] = (hosts[0]?.value ?? '').toLowerCase().split(':', 1);
  if (hosts.length !== 1 || !names.has(named ?? '')) throw new Problem('invalid_request');
  const target = parseInputTarget(raw);
  if (target === 'not-found') throw new Problem('not_found');
  if (target === 'ambiguous') throw ambiguous(raw);
  if (target.query !== undefined && !isQueryAscii(headers))
    throw new Problem('ambiguous_target', { detail: OTHER_CHARSET });
  return target;
}

/** True for HTTP/1.0 and 1.1 with no transfer coding but `chunked`: other framings could be read differently by the host. */
export const isPlainlyFramed = ({ httpVersion, headers }: IncomingMessage): boolean =>
  (httpVersion === '1.1' || httpVersion === '1.0') &&
  /^(?:chunked)?$/i.test(headers['transfer-encoding'] ?? '');

const OTHER_CHARSET = 'The charset of the content type, in which some servers read the query.';

const ambiguous = (raw: string): Problem =>
  new Problem('ambiguous_target', { detail: placeOfAmbiguity(raw) });
