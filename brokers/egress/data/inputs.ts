import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { type Turns, traceIdOf } from '@space/broker-kit';
import type { SigningProfile } from '@space/manifests';
import { mentionsPrincipal, principalIn, type RawHeader, rawHeadersOf } from '../core/credentials.ts';
import { requestHeaders } from '../core/headers.ts';
import { Problem } from '../core/problem.ts';
import { METHODS, type Method } from '../core/route.ts';
import { reporting, type Scrubber, scrubberOf, scrubbersInTurn } from '../core/scrub.ts';
import { type Signable, type Signature, sign } from '../core/signing.ts';
import { fillsQuerySlot, headerValue, targetWith } from '../core/slot.ts';
import { type InputTarget, parseInputTarget, placeOfAmbiguity } from '../core/target.ts';
import type { Custody } from '../custody.ts';
import { identify } from '../policies/callers.ts';
import type { Policies } from '../policies/policies.ts';
import { type Strangers, TurnedAway } from '../policies/strangers.ts';
import type { LiveInput, Tenant } from '../policies/tenant.ts';
import { answer, problemOf } from './answers.ts';
import type { ArrivingRequest } from './arriving-request.ts';
import { announcedLength, bodyOf, readBody, wholeLength } from './body.ts';
import type { ConnectionShares } from './connection-shares.ts';
import { Ending } from './ending.ts';
import type { DataLimits } from './limits.ts';
import type { Line, RecordLine } from './record.ts';
import type { Reflections } from './reflections.ts';
import { relay } from './relay.ts';
import { sharedInTurn } from './turn.ts';
import type { Upstreams } from './upstreams.ts';
import type { Usage } from './usage.ts';

export interface InputOptions {
  readonly policies: Policies;
  readonly strangers: Strangers;
  readonly shares: Pick<ConnectionShares, 'proved'>;
  readonly custody: Custody;
  readonly upstreams: Upstreams;
  readonly limits: DataLimits;
  readonly usage: Usage;
  readonly record: RecordLine;
  readonly onOpen: (change: 1 | -1) => void;
  /** Names by which callers know this gateway, in lower case and without a port. */
  readonly names: ReadonlySet<string>;
  /** Whether a header of a request, by its name in lower case, goes on. */
  readonly passes: (name: string) => boolean;
  readonly now: () => number;
  readonly scrubbers: ScrubberSource;
  readonly reflections: Reflections;
  /** Of the processor, for answers; keys are Capsules. */
  readonly turns: Turns;
}

/** Where the scrubber of an input's value comes from. */
export interface ScrubberSource {
  of(input: LiveInput, reveal: () => string): Scrubber | Promise<Scrubber>;
}

/** A request that may go on: everything that was decided before its value is opened. */
interface Admitted {
  readonly tenant: Tenant;
  readonly input: LiveInput;
  readonly method: Method;
  readonly target: InputTarget;
  readonly headers: string[];
}

/**
 * One request to `/i/<key>/<path>`, in this order: who calls, share, form of the target, route, slot; then the value
 * is opened, the request sent to the one host, and the answer returned as it comes, scrubbed.
 */
export function serveInput(options: InputOptions) {
  const { policies, strangers, custody, upstreams, limits, usage, record, onOpen } = options;
  const opened = sharedInTurn(({ owner, envelope }: LiveInput) => {
    const value = custody.open(owner, envelope)?.reveal();
    if (value === undefined) throw new Problem('input_unavailable');
    return value;
  });

  return async (request: ArrivingRequest, response: ServerResponse): Promise<void> => {
    const line: Line = {
      traceId: traceIdOf(request.headers.traceparent?.toString()),
      operation: 'input',
      startedAt: performance.now(),
      code: 'ok',
      bytesOut: 0,
      bytesIn: 0,
    };
    const ending = new Ending();
    const whole = setTimeout(() => ending.end(new Problem('upstream_timeout')), limits.wholeRequestMs);
    // Not the response's own: one that waits behind another of its connection never hears that this has closed.
    const { socket } = request;
    const onClose = () => ending.end(new Problem('request_timeout'));
    socket.on('close', onClose);
    let release: (() => void) | undefined;
    let turnedAway = false;
    onOpen(1);
    try {
      const headers = rawHeadersOf(request.rawHeaders);
      const patience = { ms: limits.patienceMs, signal: () => ending.signal };
      const caller = await identify(
        policies,
        strangers,
        credentialOf(headers),
        socket.remoteAddress,
        patience,
      );
      if (caller === undefined) throw new Problem('forbidden');
      const { tenant } = caller;
      line.tenant = tenant;
      options.shares.proved(socket, tenant.capsule);
      let digest: string | undefined;
      release = usage.begin(tenant, 'requests', {
        index: -1,
        permitted: () =>
          caller.stays() &&
          (digest === undefined || [...tenant.inputs.values()].some((i) => i.digest === digest)),
        end: () => {
          line.code = 'ended';
          ending.end(new Problem('forbidden'));
          socket.destroy();
        },
      });
      const admitted = admit(options, request, headers, tenant, line);
      digest = admitted.input.digest;
      await carry(admitted, request, response, line, ending);
    } catch (error) {
      if (line.code === 'ended') return;
      if (error instanceof TurnedAway) {
        turnedAway = true;
        return void socket.destroy();
      }
      const problem = problemOf(ending.reason ?? error);
      line.code = problem.code;
      if (problem.code === 'internal') line.error = error;
      if (!response.headersSent) line.status = problem.status;
      answer(request, response, problem, line.traceId);
    } finally {
      clearTimeout(whole);
      socket.off('close', onClose);
      release?.();
      onOpen(-1);
      if (!turnedAway) record(line);
    }
  };

  async function carry(
    admitted: Admitted,
    request: ArrivingRequest,
    response: ServerResponse,
    line: Line,
    ending: Ending,
  ): Promise<void> {
    const idle = { idleMs: limits.bodyIdleMs, onIdle: (problem: Problem) => ending.end(problem) };
    const goOn = () => {
      if (request.headers.expect !== undefined) response.writeContinue();
    };
    const { input } = admitted;
    // Before the body flows: until it is sent, nobody would hear that it broke.
    const scrubber = await options.scrubbers.of(input, () => opened(input));
    if (input.signing === undefined) {
      goOn();
      const body = bodyOf(request, { limit: limits.bodyBytes, ...idle }, line);
      return send(admitted, body, response, scrubber, line, ending);
    }
    const length = wholeLength(request, limits.signedBodyBytes);
    const giveBack = usage.hold(admitted.tenant, length);
    try {
      goOn();
      const body = await readBody(request, length, idle, ending.signal);
      await send(admitted, body, response, scrubber, line, ending);
    } finally {
      giveBack();
    }
  }

  async function send(
    { tenant, input, method, target, headers }: Admitted,
    body: Buffer | Readable | null,
    response: ServerResponse,
    prepared: Scrubber,
    line: Line,
    ending: Ending,
  ): Promise<void> {
    const { slot, signing, host } = input;
    const value = opened(input);
    const ofValue = reporting(prepared, () => {
      line.reflected = true;
      options.reflections.count(tenant, input);
    });
    const signature =
      signing === undefined
        ? undefined
        : signed(signing, value, {
            method,
            path: target.path,
            query: target.query,
            body: Buffer.isBuffer(body) ? body : Buffer.alloc(0),
            at: Math.floor(options.now() / 1000),
          });
    const filling = signature?.text ?? value;
    const scrubber =
      signature === undefined ? ofValue : scrubbersInTurn(ofValue, scrubberOf(signature.secrets));
    if (slot.kind === 'header') headers.push(slot.name, headerValue(slot, filling));
    await relay(
      upstreams.of(tenant, host),
      {
        method,
        path: targetWith(target, slot, filling),
        headers,
        body,
      },
      {
        response,
        scrubber,
        line,
        ending,
        idleMs: limits.bodyIdleMs,
        answerMs: limits.answerMs,
        inTurn: (act) => void options.turns.run(tenant.capsule, act),
      },
    );
  }
}

/** Refusals in their order; none of them needs the value, DNS or the upstream. */
function admit(
  options: InputOptions,
  request: IncomingMessage,
  headers: readonly RawHeader[],
  tenant: Tenant,
  line: Line,
): Admitted {
  const raw = request.url ?? '';
  if (!raw.startsWith('/')) throw new Problem('plain_http_denied');
  const hosts = headers.filter(({ lower }) => lower === 'host');
  const [named] = (hosts[0]?.value ?? '').toLowerCase().split(':', 1);
  if (hosts.length !== 1 || !options.names.has(named ?? '')) throw new Problem('invalid_request');
  const target = parseInputTarget(raw);
  if (target === 'not-found') throw new Problem('not_found');
  if (target === 'ambiguous') throw ambiguous(raw);
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
  const passed = requestHeaders(headers, input.slot, options.passes);
  if (!input.usable) throw new Problem('input_unavailable');
  if (options.reflections.isSuspended(tenant, input)) throw new Problem('input_suspended');
  if (announcedLength(request) > options.limits.bodyBytes) throw new Problem('too_large');
  return { tenant, input, method, target, headers: passed };
}

function signed(profile: SigningProfile, value: string, request: Signable): Signature {
  const key = Buffer.from(value, 'latin1');
  try {
    return sign(profile, key, request);
  } finally {
    key.fill(0);
  }
}

const ambiguous = (raw: string): Problem =>
  new Problem('ambiguous_target', { detail: placeOfAmbiguity(raw) });

/** The one principal in the headers: proxy or bearer credentials, or the API key that an SDK insists on sending. */
function credentialOf(headers: readonly RawHeader[]): string | undefined {
  let found: string | undefined;
  for (const { value } of headers) {
    const principal = principalIn(value);
    if (principal === undefined || principal === found) continue;
    if (found !== undefined) return undefined;
    found = principal;
  }
  return found;
}
