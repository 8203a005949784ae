import type { ServerResponse } from 'node:http';
import type { Readable } from 'node:stream';
import { type Turns, traceIdOf } from '@space/broker-kit';
import type { SigningProfile } from '@space/manifests';
import { principalIn, type RawHeader, rawHeadersOf } from '../core/credentials.ts';
import { Problem } from '../core/problem.ts';
import { reporting, type Scrubber, scrubberOf, scrubbersInTurn } from '../core/scrub.ts';
import { type Signable, type Signature, sign } from '../core/signing.ts';
import { headerValue, targetWith } from '../core/slot.ts';
import type { Custody } from '../custody.ts';
import { identify } from '../policies/callers.ts';
import type { Policies } from '../policies/policies.ts';
import { type Strangers, TurnedAway } from '../policies/strangers.ts';
import type { LiveInput } from '../policies/tenant.ts';
import { type AdmissionOptions, type Admitted, admit } from './admission.ts';
import { answer, problemOf } from './answers.ts';
import type { ArrivingRequest } from './arriving-request.ts';
import { bodyOf, readBody, wholeLength } from './body.ts';
import type { ConnectionShares } from './connection-shares.ts';
import { Ending } from './ending.ts';
import type { DataLimits } from './limits.ts';
import { oncePerTick } from './once-per-tick.ts';
import type { Line, RecordLine } from './record.ts';
import { relay } from './relay.ts';
import type { Upstreams } from './upstreams.ts';
import type { Usage } from './usage.ts';

export interface InputOptions extends Omit<AdmissionOptions, 'bodyBytes'> {
  readonly policies: Policies;
  readonly strangers: Strangers;
  readonly shares: Pick<ConnectionShares, 'proved'>;
  readonly custody: Custody;
  readonly upstreams: Upstreams;
  readonly limits: DataLimits;
  readonly usage: Usage;
  readonly record: RecordLine;
  readonly onOpen: (change: 1 | -1) => void;
  readonly now: () => number;
  readonly scrubbers: ScrubberSource;
  /** Turns at the processor, to scrub answers; the keys are Capsules. */
  readonly turns: Turns;
}

/** Makes the scrubber of an input's value, or finds one that was made. */
export interface ScrubberSource {
  of(input: LiveInput, reveal: () => string): Scrubber | Promise<Scrubber>;
}

/**
 * One request to `/i/<key>/<path>`, in this order: who calls, share, form of the target, route, slot; then the value
 * is opened, the request sent to the one host, and the answer returned as it comes, scrubbed.
 */
export function serveInput(options: InputOptions) {
  const { policies, strangers, custody, upstreams, limits, usage, record, onOpen } = options;
  const admission: AdmissionOptions = { ...options, bodyBytes: limits.bodyBytes };
  const opened = oncePerTick(({ owner, envelope }: LiveInput) => {
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
    // A response that waits behind another one on its connection is never told that the connection has closed.
    const { socket } = request;
    const onClose = () => ending.end(new Problem('request_timeout'));
    socket.on('close', onClose);
    let release: (() => void) | undefined;
    let turnedAway = false;
    onOpen(1);
    try {
      const headers = rawHeadersOf(request.rawHeaders);
      const wait = { ms: limits.unknownWaitMs, signal: () => ending.signal };
      const caller = await identify(policies, strangers, credentialOf(headers), socket.remoteAddress, wait);
      if (caller === undefined) throw new Problem('forbidden');
      const { tenant } = caller;
      line.tenant = tenant;
      options.shares.proved(socket, tenant.capsule);
      let digest: string | undefined;
      release = usage.begin(tenant, 'requests', {
        index: -1,
        permitted: () =>
          caller.isStillValid() &&
          (digest === undefined || [...tenant.inputs.values()].some((i) => i.digest === digest)),
        end: () => {
          line.code = 'ended';
          ending.end(new Problem('forbidden'));
          socket.destroy();
        },
      });
      const admitted = admit(admission, request, headers, tenant, line);
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
    const sendContinue = () => {
      if (request.headers.expect !== undefined) response.writeContinue();
    };
    const { input } = admitted;
    // Prepared before the body flows: until it is sent, nobody listens for its errors.
    const scrubber = await options.scrubbers.of(input, () => opened(input));
    if (input.signing === undefined) {
      sendContinue();
      const body = bodyOf(request, { limit: limits.bodyBytes, ...idle }, line);
      return send(admitted, body, response, scrubber, line, ending);
    }
    const length = wholeLength(request, limits.signedBodyBytes);
    const giveBack = usage.hold(admitted.tenant, length);
    try {
      sendContinue();
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

function signed(profile: SigningProfile, value: string, request: Signable): Signature {
  const key = Buffer.from(value, 'latin1');
  try {
    return sign(profile, key, request);
  } finally {
    key.fill(0);
  }
}

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
