import type { IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Duplex } from 'node:stream';
import { DialError, type Dialler, traceIdOf } from '@space/broker-kit';
import { parseAuthority, TLS_PORT } from '../core/authority.ts';
import { alertFor, LONGEST_HELLO, readClientHello } from '../core/client-hello.ts';
import { principalIn, rawHeadersOf } from '../core/credentials.ts';
import { Problem, type TunnelFault } from '../core/problem.ts';
import { identify } from '../policies/callers.ts';
import { type Policies, plainAddress } from '../policies/policies.ts';
import { type Strangers, TurnedAway } from '../policies/strangers.ts';
import { isPlainlyFramed } from './admission.ts';
import { answerRaw, askForCredential, endWith, problemOf } from './answers.ts';
import type { ConnectionShares } from './connection-shares.ts';
import type { DataLimits } from './limits.ts';
import type { Line, RecordLine } from './record.ts';
import type { Usage } from './usage.ts';

export interface TunnelOptions {
  readonly policies: Policies;
  readonly strangers: Strangers;
  readonly shares: Pick<ConnectionShares, 'proved'>;
  readonly dialler: Dialler;
  readonly limits: DataLimits;
  readonly usage: Usage;
  readonly record: RecordLine;
  readonly onOpen: (change: 1 | -1) => void;
}

/** Made once, since every tunnel ends with it and a new error costs a stack trace. */
const CLIENT_GONE = new DialError('unreachable');

/**
 * One CONNECT, in this order: who calls, host, share, address, 200, ClientHello, bytes. Nothing of the client's is
 * passed on before its ClientHello names the host that it asked for.
 */
export function serveTunnel(options: TunnelOptions) {
  const { policies, strangers, dialler, limits, usage, record, onOpen } = options;

  /** `resume` lets the connection bring its next request. */
  return async (
    request: IncomingMessage,
    client: Socket,
    head: Buffer,
    resume: () => void,
  ): Promise<void> => {
    const line: Line = {
      traceId: traceIdOf(request.headers.traceparent?.toString()),
      operation: 'connect',
      startedAt: performance.now(),
      method: 'CONNECT',
      code: 'ok',
      bytesOut: 0,
      bytesIn: 0,
    };
    // Without bytes behind its head, the client waits for an answer and may send its credential next.
    if (head.length === 0 && credentialsOf(request).length === 0) {
      // Somebody who asks again and does not read what he was told would have it all kept.
      if (client.writableLength > 0) return void client.destroy();
      if (!mayRefuse(client)) return;
      line.code = 'credential_required';
      line.status = new Problem(line.code).status;
      askForCredential(client, request, line.traceId);
      record(line);
      return resume();
    }
    const ending = new AbortController();
    let upstream: Socket | undefined;
    let release: (() => void) | undefined;
    client.once('close', () => ending.abort(CLIENT_GONE));
    let turnedAway = false;
    onOpen(1);
    try {
      const wait = { ms: limits.unknownWaitMs, signal: () => ending.signal };
      const credential = credentialOf(request);
      const caller = await identify(policies, strangers, credential, client.remoteAddress, wait);
      if (caller === undefined) throw new Problem('forbidden');
      const { tenant } = caller;
      line.tenant = tenant;
      options.shares.proved(client, tenant.capsule);
      const host = parseAuthority(request.url ?? '');
      if (host === undefined || !tenant.hosts.has(host)) {
        line.refusedHost = host;
        throw new Problem('host_denied');
      }
      line.host = host;
      if (!agreesWithTarget(request, host) || !isPlainlyFramed(request)) throw new Problem('invalid_request');
      const connection = {
        index: -1,
        permitted: () => caller.isStillValid() && tenant.hosts.has(host),
        called: () => ({ host }),
        end: () => {
          line.code = 'ended';
          client.destroy();
          upstream?.destroy();
        },
      };
      release = usage.begin(tenant, 'tunnels', connection);
      upstream = await dialler.dial(host, TLS_PORT, ending.signal);
      // The policy may have changed while the connection was being opened.
      if (!connection.permitted()) throw new Problem('host_denied');
      line.status = 200;
      client.write('HTTP/1.1 200 Connection Established\r\n\r\n');
      const hello = await readHello(client, head, host, limits.helloMs);
      if ('fault' in hello) {
        line.code = hello.fault;
        endWith(client, alertFor(hello.fault));
        return;
      }
      await join(client, upstream, hello.bytes, limits.tunnelIdleMs, line);
    } catch (error) {
      if (line.status === 200) return;
      if (error instanceof TurnedAway) {
        turnedAway = true;
        return void client.destroy();
      }
      const problem = problemOf(error);
      line.status = problem.status;
      line.code = problem.code;
      if (!(error instanceof Problem) && !(error instanceof DialError)) line.error = error;
      answerRaw(client, problem, line.traceId);
    } finally {
      upstream?.destroy();
      release?.();
      onOpen(-1);
      if (!turnedAway) record(line);
    }
  };

  /** Returns whether a refusal may be answered; a client that was refused too often is disconnected instead. */
  function mayRefuse(client: Socket): boolean {
    try {
      strangers.refuse(plainAddress(client.remoteAddress ?? ''));
      return true;
    } catch {
      client.destroy();
      return false;
    }
  }
}

const credentialsOf = (request: IncomingMessage) =>
  rawHeadersOf(request.rawHeaders).filter(({ lower }) => lower === 'proxy-authorization');

/** A client of a proxy sends exactly one `Proxy-Authorization`. */
function credentialOf(request: IncomingMessage): string | undefined {
  const headers = credentialsOf(request);
  return headers.length === 1 ? principalIn(headers[0]?.value ?? '') : undefined;
}

/** RFC 9112 wants a Host header equal to the target; any other is an attempt to confuse. */
function agreesWithTarget(request: IncomingMessage, host: string): boolean {
  const hosts = rawHeadersOf(request.rawHeaders).filter(({ lower }) => lower === 'host');
  if (hosts.length > 1) return false;
  const [named] = hosts;
  return named === undefined || named.value === host || named.value === `${host}:${TLS_PORT}`;
}

type HelloRead = { readonly bytes: Buffer } | { readonly fault: TunnelFault };

/** Collects the first bytes until they are a ClientHello for the host, for at most `timeoutMs`. */
function readHello(client: Duplex, head: Buffer, host: string, timeoutMs: number): Promise<HelloRead> {
  return new Promise((resolve) => {
    let bytes = Buffer.from(head);
    const settle = (result: HelloRead) => {
      clearTimeout(timer);
      client.off('data', onData).off('end', onEnd).off('close', onEnd);
      client.pause();
      resolve(result);
    };
    const look = () => {
      const hello = readClientHello(bytes);
      if (hello === 'more') {
        if (bytes.length > LONGEST_HELLO + 5) settle({ fault: 'hello_too_large' });
      } else if ('fault' in hello) settle(hello);
      else settle(hello.sni === host ? { bytes } : { fault: 'sni_mismatch' });
    };
    const onData = (chunk: Buffer) => {
      bytes = Buffer.concat([bytes, chunk]);
      look();
    };
    const onEnd = () => settle({ fault: 'not_tls' });
    const timer = setTimeout(() => settle({ fault: 'hello_timeout' }), timeoutMs);
    client.on('data', onData).on('end', onEnd).on('close', onEnd);
    look();
  });
}

/** How long a client that has read the whole answer may neither send nor close. */
const CLOSE_WAIT_MS = 60_000;

/**
 * Copies bytes both ways until both sides have ended, one breaks, or neither has sent for the idle time. Each direction
 * ends by itself: what a side has sent before its end is delivered, however slowly the other side reads.
 */
function join(client: Socket, upstream: Socket, first: Buffer, idleMs: number, line: Line): Promise<void> {
  return new Promise((resolve) => {
    let [clientDone, upstreamDone] = [false, false];
    const end = () => {
      clearTimeout(idle);
      client.destroy();
      upstream.destroy();
      resolve();
    };
    const idle = setTimeout(end, idleMs);
    const endWhenBothDone = () => {
      if (upstreamDone && clientDone) end();
    };
    // Otherwise the end of an answer would cut off what the client still sends.
    upstream.allowHalfOpen = true;
    line.bytesOut += first.length;
    client.on('data', (chunk: Buffer) => {
      line.bytesOut += chunk.length;
      idle.refresh();
    });
    upstream.on('data', (chunk: Buffer) => {
      line.bytesIn += chunk.length;
      idle.refresh();
    });
    // A side that reads slowly is not idle.
    client.on('drain', () => idle.refresh());
    upstream.on('drain', () => idle.refresh());
    upstream.once('finish', () => {
      upstreamDone = true;
      endWhenBothDone();
    });
    client.once('finish', () => {
      clientDone = true;
      endWhenBothDone();
      const closeTimer = setTimeout(end, Math.min(idleMs, CLOSE_WAIT_MS));
      client.on('data', () => closeTimer.refresh()).once('close', () => clearTimeout(closeTimer));
    });
    // A client that closes early has broken off; what an upstream sent before it closed is still delivered.
    client.once('close', end).once('error', end);
    upstream.once('error', () => client.end()).once('close', () => client.end());
    upstream.write(first);
    client.pipe(upstream);
    upstream.pipe(client);
  });
}
