import type { ServerResponse } from 'node:http';
import { traceIdOf } from '@space/broker-kit';
import { principalIn, type RawHeader, rawHeadersOf } from '../core/credentials.ts';
import { Problem } from '../core/problem.ts';
import type { Caller } from '../policies/callers.ts';
import { TurnedAway } from '../policies/strangers.ts';
import { type AdmissionOptions, admit } from './admission.ts';
import { answer, problemOf } from './answers.ts';
import type { ArrivingRequest } from './arriving-request.ts';
import { authenticate, type CallerOptions } from './authenticate.ts';
import { Ending } from './ending.ts';
import { createInputSender, type InputExchange, type SenderOptions } from './input-sender.ts';
import type { RecordLine } from './record.ts';

export interface InputOptions extends CallerOptions, AdmissionOptions, SenderOptions {
  readonly record: RecordLine;
  readonly onOpen: (change: 1 | -1) => void;
}

/**
 * Serves one request to `/i/<key>/<path>`, in this order: caller, share, form of the target, route, slot; then the
 * value is opened, the request sent to its host, and the answer returned, scrubbed, while it arrives.
 */
export function serveInput(options: InputOptions) {
  const { limits, usage, record, onOpen } = options;
  const send = createInputSender(options);

  return async (request: ArrivingRequest, response: ServerResponse): Promise<void> => {
    const exchange = beginExchange(request, response);
    const { line, ending } = exchange;
    const { socket } = request;
    const whole = setTimeout(() => ending.end(new Problem('upstream_timeout')), limits.wholeRequestMs);
    // A response that waits behind another one on its connection is never told that the connection has closed.
    const onClose = () => ending.end(new Problem('request_timeout'));
    socket.on('close', onClose);
    let release: (() => void) | undefined;
    let turnedAway = false;
    onOpen(1);
    try {
      const headers = rawHeadersOf(request.rawHeaders);
      const shown = { socket, credential: credentialOf(headers), line };
      const caller = await authenticate(options, shown, () => ending.signal);
      release = share(exchange, caller);
      await send(admit(options, { request, headers, tenant: caller.tenant, line }), exchange);
    } catch (error) {
      turnedAway = line.code !== 'ended' && error instanceof TurnedAway;
      if (turnedAway) socket.destroy();
      else if (line.code !== 'ended') refuse(exchange, error);
    } finally {
      clearTimeout(whole);
      socket.off('close', onClose);
      release?.();
      onOpen(-1);
      if (!turnedAway) record(line);
    }
  };

  /**
   * Takes a part of the Capsule's share for the request. The request ends when its caller or its input is no longer
   * permitted.
   */
  function share({ request, line, ending }: InputExchange, caller: Caller): () => void {
    const { tenant } = caller;
    const isStillThere = (digest: string) =>
      [...tenant.inputs.values()].some((input) => input.digest === digest);
    return usage.begin(tenant, 'requests', {
      index: -1,
      permitted: () => caller.isStillValid() && (line.input === undefined || isStillThere(line.input.digest)),
      called: () => line.input,
      end: () => {
        line.code = 'ended';
        ending.end(new Problem('forbidden'));
        request.socket.destroy();
      },
    });
  }
}

function beginExchange(request: ArrivingRequest, response: ServerResponse): InputExchange {
  return {
    request,
    response,
    ending: new Ending(),
    line: {
      traceId: traceIdOf(request.headers.traceparent?.toString()),
      operation: 'input',
      startedAt: performance.now(),
      code: 'ok',
      bytesOut: 0,
      bytesIn: 0,
    },
  };
}

/** Answers with the error, or with the reason for which the request was ended. */
function refuse({ request, response, line, ending }: InputExchange, error: unknown): void {
  const problem = problemOf(ending.reason ?? error);
  line.code = problem.code;
  if (problem.code === 'internal') line.error = error;
  if (!response.headersSent) line.status = problem.status;
  answer(request, response, problem, line.traceId);
}

/** The only principal in the headers: proxy or bearer credentials, or the API key header that an SDK always sends. */
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
