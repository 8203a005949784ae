import { connect, isIP, type Socket } from 'node:net';
import { type AddressBytes, parseAddress } from './address.ts';
import { deadline } from './deadline.ts';
import type { AddressGuard } from './guard.ts';
import { type Answer, MOST_ADDRESSES, type Resolve } from './resolve.ts';

export type DialFailure = 'unresolved' | 'denied' | 'unreachable' | 'timeout';

/** Why no connection was opened; the message contains no address. */
export class DialError extends Error {
  readonly failure: DialFailure;

  constructor(failure: DialFailure, options: { cause?: unknown } = {}) {
    super(`no connection: ${failure}`, options);
    this.name = 'DialError';
    this.failure = failure;
  }
}

export interface Dialler {
  /** A connected socket to one of the host's addresses, all of which the guard permits. @throws DialError */
  dial(host: string, port: number, signal?: AbortSignal): Promise<Socket>;
}

const CONNECT_MS = 5_000;
const MOST_TRIED = 4;

/**
 * Resolves the name, refuses it if the guard refuses any of its addresses, connects to a checked address (never to the
 * name), and checks the peer's address of the connected socket again.
 */
export function dialler(options: {
  readonly resolve: Resolve;
  readonly guard: AddressGuard;
  readonly connectMs?: number;
}): Dialler {
  const { resolve, guard, connectMs = CONNECT_MS } = options;

  async function answersOf(host: string): Promise<readonly Answer[]> {
    // A literal address would be connected to without being resolved and checked.
    if (isIP(host) !== 0) throw new DialError('denied');
    const answers = await resolve(host).catch((cause: unknown) => {
      throw new DialError('unresolved', { cause });
    });
    if (answers.length === 0 || answers.length > MOST_ADDRESSES) throw new DialError('unresolved');
    if (answers.some(({ address, trusted }) => trusted !== true && !guard.permits(address)))
      throw new DialError('denied');
    return answers;
  }

  return {
    async dial(host, port, signal) {
      const answers = await answersOf(host);
      let failed: DialError | undefined;
      for (const answer of interleaved(answers).slice(0, MOST_TRIED)) {
        try {
          const socket = await open(answer.address, answer.port ?? port, connectMs, signal);
          if (sameAddress(socket.remoteAddress, answer.address)) return socket;
          socket.destroy();
          failed = new DialError('denied');
        } catch (error) {
          if (!(error instanceof DialError) || signal?.aborted) throw error;
          failed = error;
        }
      }
      throw failed ?? new DialError('unreachable');
    },
  };
}

/**
 * Addresses of both families in turn, IPv6 first (RFC 8305), so that a cluster with only one family soon tries one that
 * works.
 */
function interleaved(answers: readonly Answer[]): readonly Answer[] {
  const [only] = answers;
  if (only !== undefined && answers.length === 1) return isIP(only.address) === 0 ? [] : answers;
  const of = (family: number) => answers.filter(({ address }) => isIP(address) === family);
  const [v6, v4] = [of(6), of(4)];
  return Array.from({ length: Math.max(v6.length, v4.length) }).flatMap((_, at) =>
    [v6[at], v4[at]].filter((answer) => answer !== undefined),
  );
}

function open(host: string, port: number, timeoutMs: number, signal?: AbortSignal): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  signal?.throwIfAborted();
  // `signal` is not passed as an option: it would end the socket even after it was handed over.
  const socket = connect({ host, port, autoSelectFamily: false });
  const inTime = deadline(timeoutMs, () => socket.destroy(new DialError('timeout')));
  const abort = () => socket.destroy(new DialError('unreachable', { cause: signal?.reason }));
  signal?.addEventListener('abort', abort, { once: true });
  const settle = () => {
    inTime();
    signal?.removeEventListener('abort', abort);
  };
  const fail = (cause: Error) => {
    settle();
    reject(cause instanceof DialError ? cause : new DialError('unreachable', { cause }));
  };
  socket.once('error', fail);
  socket.once('connect', () => {
    settle();
    socket.off('error', fail);
    // An error must not crash the process before the new owner listens.
    socket.on('error', () => undefined);
    socket.setNoDelay(true);
    resolve(socket);
  });
  return promise;
}

function sameAddress(a: string | undefined, b: string): boolean {
  if (a === b) return true;
  const [x, y] = [plain(parseAddress(a ?? '')), plain(parseAddress(b))];
  return x !== undefined && y !== undefined && x.join() === y.join();
}

/** The IPv4 address of a peer that a dual-stack socket reports as `::ffff:a.b.c.d`. */
function plain(address: AddressBytes | undefined): AddressBytes | undefined {
  const mapped = address?.length === 16 && address.slice(0, 12).join() === '0,0,0,0,0,0,0,0,0,0,255,255';
  return mapped ? address.slice(12) : address;
}
