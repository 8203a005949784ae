import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import { DialError, type Dialler, type Turns, traceIdOf } from '@space/broker-kit';
import { parseAuthority, TLS_PORT } from '../core/authority.ts';
import { alertFor } from '../core/client-hello.ts';
import { principalIn, rawHeadersOf } from '../core/credentials.ts';
import { MOST_HEADERS } from '../core/headers.ts';
import { Problem } from '../core/problem.ts';
import type { Caller } from '../policies/callers.ts';
import { plainAddress } from '../policies/policies.ts';
import { TurnedAway } from '../policies/strangers.ts';
import { isPlainlyFramed } from './admission.ts';
import { answerRaw, askForCredential, endWith, problemOf } from './answers.ts';
import { authenticate, type CallerOptions } from './authenticate.ts';
import type { Budget } from './budget.ts';
import { readHello } from './hello.ts';
import { join } from './join.ts';
import { TUNNEL_STALL_BYTES } from './limits.ts';
import { passingFor } from './passing.ts';
import type { Line, RecordLine } from './record.ts';
import type { Usage } from './usage.ts';

export interface TunnelOptions extends CallerOptions {
  readonly dialler: Dialler;
  readonly usage: Usage;
  readonly stalls: Budget;
  /** Turns with the processor; the keys are Capsules. */
  readonly turns: Turns;
  readonly record: RecordLine;
  readonly onOpen: (change: 1 | -1) => void;
}

/** The state of one CONNECT. */
interface Tunnel {
  readonly request: IncomingMessage;
  readonly client: Socket;
  readonly line: Line;
  /** Aborts when the client is gone before the upstream is connected. */
  readonly signal: AbortSignal;
  /** Returns the tunnel's part of its Capsule's share. */
  release?: () => void;
  upstream?: Socket;
}

/** Created once, since many tunnels end with it and a new error costs a stack trace. */
const CLIENT_GONE = new DialError('unreachable');

/**
 * Serves one CONNECT, in this order: caller, host, share, address, 200, ClientHello, bytes. Nothing from the client is
 * passed on before its ClientHello names the requested host.
 */
export function serveTunnel(options: TunnelOptions) {
  const { record, onOpen } = options;

  /** `resume` lets the connection deliver its next request. */
  return async (
    request: IncomingMessage,
    client: Socket,
    head: Buffer,
    resume: () => void,
  ): Promise<void> => {
    const line = beginLine(request);
    // If nothing follows the headers, the client waits for an answer and may send its credential next.
    if (head.length === 0 && credentialsOf(request).length === 0) {
      if (demandCredential(options, request, client, line)) resume();
      return;
    }
    const ending = new AbortController();
    const gone = () => ending.abort(CLIENT_GONE);
    client.once('close', gone);
    const tunnel: Tunnel = { request, client, line, signal: ending.signal };
    let turnedAway = false;
    onOpen(1);
    try {
      const shown = { socket: client, credential: credentialOf(request), line };
      const caller = await authenticate(options, shown, () => tunnel.signal);
      const host = options.usage.decide(caller.tenant, () => hostFor(tunnel, caller));
      const upstream = await open(options, tunnel, caller, host);
      // Nobody listens to the signal from here on, and an abort costs more than the tunnel's other listeners together.
      client.off('close', gone);
      await pass(options, tunnel, upstream, { capsule: caller.tenant.capsule, host, head });
    } catch (error) {
      if (line.status === 200) return;
      turnedAway = error instanceof TurnedAway;
      if (turnedAway) client.destroy();
      else refuse(tunnel, error);
    } finally {
      tunnel.upstream?.destroy();
      tunnel.release?.();
      onOpen(-1);
      if (!turnedAway) record(line);
    }
  };
}

/** Asks for a credential; returns whether the connection may deliver one. */
function demandCredential(
  { strangers, record }: TunnelOptions,
  request: IncomingMessage,
  client: Socket,
  line: Line,
): boolean {
  // The answers for a client that keeps asking and does not read would all be kept in memory.
  if (client.writableLength > 0 || !strangers.mayRefuse(plainAddress(client.remoteAddress ?? ''))) {
    client.destroy();
    return false;
  }
  line.code = 'credential_required';
  line.status = new Problem(line.code).status;
  askForCredential(client, request, line.traceId);
  record(line);
  return true;
}

/**
 * Takes a part of the Capsule's share for the tunnel, and connects. The tunnel ends when its policy no longer permits
 * it.
 */
async function open(
  { usage, dialler }: TunnelOptions,
  tunnel: Tunnel,
  caller: Caller,
  host: string,
): Promise<Socket> {
  const { client, line, signal } = tunnel;
  const { tenant } = caller;
  const permitted = () => caller.isStillValid() && tenant.hosts.has(host);
  tunnel.release = usage.begin(tenant, 'tunnels', {
    index: -1,
    permitted,
    called: () => ({ host }),
    end: () => {
      line.code = 'ended';
      client.destroy();
      tunnel.upstream?.destroy();
    },
  });
  const upstream = await dialler.dial(host, TLS_PORT, signal);
  tunnel.upstream = upstream;
  // The policy may have changed while the connection was being opened.
  if (!permitted()) throw new Problem('host_denied');
  return upstream;
}

/** Sends the 200 and then bytes, none of the client's before its ClientHello has named the host. */
async function pass(
  { limits, stalls, usage, turns }: TunnelOptions,
  { client, line }: Tunnel,
  upstream: Socket,
  { capsule, host, head }: { readonly capsule: string; readonly host: string; readonly head: Buffer },
): Promise<void> {
  line.status = 200;
  client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
  const hello = await readHello(client, head, host, limits.helloMs);
  if ('fault' in hello) {
    line.code = hello.fault;
    endWith(client, alertFor(hello.fault));
    return;
  }
  const stalled = (end: () => void) => stalls.hold(capsule, TUNNEL_STALL_BYTES, end);
  await join(client, upstream, hello.bytes, {
    idleMs: limits.tunnelIdleMs,
    line,
    stalled,
    passing: passingFor({ usage, turns }, capsule),
  });
}

function beginLine(request: IncomingMessage): Line {
  return {
    traceId: traceIdOf(request.headers.traceparent?.toString()),
    operation: 'connect',
    startedAt: performance.now(),
    method: 'CONNECT',
    code: 'ok',
    bytesOut: 0,
    bytesIn: 0,
  };
}

/** @throws Problem `host_denied` for a host that the policy does not name, another one for an ambiguous request */
function hostFor({ request, line }: Tunnel, { tenant }: Caller): string {
  const host = parseAuthority(request.url ?? '');
  if (host === undefined || !tenant.hosts.has(host)) {
    line.refusedHost = host;
    throw new Problem('host_denied');
  }
  line.host = host;
  if (request.rawHeaders.length > 2 * MOST_HEADERS) throw new Problem('header_too_large');
  if (!agreesWithTarget(request, host) || !isPlainlyFramed(request)) throw new Problem('invalid_request');
  return host;
}

/** Answers with the error, before the 200. */
function refuse({ client, line }: Tunnel, error: unknown): void {
  const problem = problemOf(error);
  line.status = problem.status;
  line.code = problem.code;
  if (!(error instanceof Problem) && !(error instanceof DialError)) line.error = error;
  answerRaw(client, problem, line.traceId);
}

const credentialsOf = (request: IncomingMessage) =>
  rawHeadersOf(request.rawHeaders).filter(({ lower }) => lower === 'proxy-authorization');

/** A client of a proxy sends exactly one `Proxy-Authorization`. */
function credentialOf(request: IncomingMessage): string | undefined {
  const headers = credentialsOf(request);
  return headers.length === 1 ? principalIn(headers[0]?.value ?? '') : undefined;
}

/** RFC 9112 requires a Host header equal to the target; a request with another one is ambiguous. */
function agreesWithTarget(request: IncomingMessage, host: string): boolean {
  const hosts = rawHeadersOf(request.rawHeaders).filter(({ lower }) => lower === 'host');
  if (hosts.length > 1) return false;
  const [named] = hosts;
  return named === undefined || named.value === host || named.value === `${host}:${TLS_PORT}`;
}
