import { constants } from 'node:crypto';
import { readFile } from 'node:fs/promises';
import type { Socket } from 'node:net';
import {
  connect as connectTls,
  createSecureContext,
  rootCertificates,
  type SecureContext,
  type TLSSocket,
} from 'node:tls';
import {
  type AddressGuard,
  addressGuard,
  ConfigError,
  cached,
  DialError,
  type Dialler,
  deadline,
  dialler,
  dnsResolve,
  fixedMap,
  HOST_CIPHERS,
  onManyTickets,
  onNextHandshake,
  withFixed,
} from '@space/broker-kit';
import { Client, type Dispatcher, Pool } from 'undici';
import { hearing } from '../../upstream/early-answers.ts';
import { freeing } from '../../upstream/pieces.ts';
import { readingInTurns } from '../../upstream/read-in-turns.ts';
import { PATIENCE, type Passing } from '../../upstream/relay.ts';

/** How hosts that a tenant has named may be reached. */
export interface Reach {
  readonly dialler: Dialler;
  /** Authorities in PEM, in addition to the system's. */
  readonly ca: string | undefined;
}

/** The settings, as in the environment. */
export interface ReachSettings {
  readonly BYOK_FIXED_HOSTS: readonly string[];
  readonly BYOK_CA_FILE?: string | undefined;
  readonly BYOK_DENIED_BLOCKS: readonly string[];
  readonly BYOK_ALLOWED_BLOCKS: readonly string[];
  readonly BYOK_NAT64_PREFIXES: readonly string[];
}

/** Reads where Capsules' own endpoints may be, as the Space's administrator configured it. */
export async function openReach(config: ReachSettings): Promise<Reach> {
  const { BYOK_FIXED_HOSTS: fixed, BYOK_CA_FILE: ca } = config;
  return {
    dialler: dialler({
      resolve: withFixed(fixedMap(fixed), cached(dnsResolve())),
      guard: reachGuard(config),
    }),
    ca: ca === undefined ? undefined : await readFile(ca, 'utf8'),
  };
}

export function reachGuard(config: ReachSettings): AddressGuard {
  const { BYOK_DENIED_BLOCKS: denied, BYOK_ALLOWED_BLOCKS: allowed, BYOK_NAT64_PREFIXES: nat64 } = config;
  try {
    return addressGuard({ denied, allowed, nat64 });
  } catch (error) {
    const why = error instanceof Error ? error.message : 'not blocks of addresses';
    throw new ConfigError(`BYOK_DENIED_BLOCKS, BYOK_ALLOWED_BLOCKS, BYOK_NAT64_PREFIXES: ${why}`, {
      cause: error,
    });
  }
}

const CONNECT_MS = 5_000;

/** Bytes that a connection for a few small requests may bring, which is more than all of their answers have. */
const MOST_READ = 1024 * 1024;

/** A client with one connection at a time, for small requests that end at the deadline. */
export function guardedClient(
  origin: string,
  { deadline, ...reach }: Reach & { readonly deadline: AbortSignal },
): Dispatcher {
  return new Client(origin, {
    pipelining: 1,
    headersTimeout: 5_000,
    bodyTimeout: 5_000,
    maxHeaderSize: 16 * 1024,
    connect: connector(origin, reach, (act) => act(deadline), readingAtMost),
  });
}

/** Ends a connection that brings more: what is of no body, such as extensions of chunks, is parsed as fast as it comes. */
function readingAtMost(socket: Socket): void {
  const plain = socket.read.bind(socket);
  const read = (size?: number) => {
    if (socket.bytesRead > MOST_READ) socket.destroy(new Error('more than all answers have'));
    return plain(size);
  };
  Object.assign(socket, { read });
}

export interface GuardedPoolOptions extends Reach {
  readonly connections: number;
  /** Milliseconds for which an unused connection is kept. */
  readonly keepMs: number;
  /** Called with each connection. */
  readonly onOpen?: (socket: Socket) => void;
  /** Reads what arrives in turns. */
  readonly passing: Passing;
}

/** A pool of kept connections for bodies of any size, with the same limits as the pool for the Space's own store. */
export function guardedPool(
  origin: string,
  { connections, keepMs, onOpen, passing, ...reach }: GuardedPoolOptions,
): Dispatcher {
  return new Pool(origin, {
    connections,
    pipelining: 1,
    allowH2: false,
    headersTimeout: PATIENCE.headMs,
    bodyTimeout: PATIENCE.pieceMs,
    keepAliveTimeout: keepMs,
    // A server may ask for more, and keep as many connections open as it likes.
    keepAliveMaxTimeout: keepMs,
    maxHeaderSize: 16 * 1024,
    strictContentLength: true,
    connect: connector(origin, reach, withinConnect, (socket) => {
      readingInTurns(socket, passing);
      onOpen?.(socket);
    }),
  });
}

/** Runs a connection attempt within a deadline. */
type Within = (act: (deadline: AbortSignal) => Promise<TLSSocket>) => Promise<TLSSocket>;

/** The time for look-up, connection and handshake together; an established connection is not limited by it. */
const withinConnect: Within = (act) => {
  const late = new AbortController();
  const inTime = deadline(CONNECT_MS, () => late.abort(new DialError('timeout')));
  return act(late.signal).finally(inTime);
};

const contexts = new Map<string | undefined, SecureContext>();
/**
 * The context with these authorities beside the system's, created once: parsing all of them takes some milliseconds, and a
 * tenant's server may end every connection after one request.
 */
export function contextWith(ca: string | undefined): SecureContext {
  const known = contexts.get(ca);
  if (known !== undefined) return known;
  const authorities = ca === undefined ? {} : { ca: [...rootCertificates, ca] };
  // A server could have any number of handshakes made on one connection.
  const secureOptions = constants.SSL_OP_NO_RENEGOTIATION;
  const context = createSecureContext({
    minVersion: 'TLSv1.2',
    ciphers: HOST_CIPHERS,
    secureOptions,
    ...authorities,
  });
  contexts.set(ca, context);
  return context;
}

/** Connects through the guard with TLS 1.2 or later and a certificate for exactly this name; no proxy, no redirects. */
function connector(
  origin: string,
  { dialler, ca }: Reach,
  within: Within,
  onOpen: (socket: Socket) => void = () => undefined,
) {
  const { hostname, port } = new URL(origin);

  async function secure(deadline: AbortSignal): Promise<TLSSocket> {
    const socket = await dialler.dial(hostname, Number(port || 443), deadline);
    const tls = connectTls({
      socket,
      servername: hostname,
      secureContext: contextWith(ca),
      ALPNProtocols: ['http/1.1'],
    });
    const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
    const stop = () => tls.destroy(new Error('the deadline passed'));
    deadline.addEventListener('abort', stop, { once: true });
    // The listener stays: an abort may fail both the socket and its TLS layer, and an error without a listener ends the
    // process.
    tls.on('error', reject);
    tls.once('close', () => reject(new Error('closed during the handshake')));
    tls.once('secureConnect', () => {
      onNextHandshake(tls, () => tls.destroy(new Error('the host asked for another handshake')));
      onManyTickets(tls, () => tls.destroy(new Error('the host sends tickets without end')));
      resolve(tls);
    });
    return promise.finally(() => deadline.removeEventListener('abort', stop));
  }

  return (
    _options: unknown,
    done: (...outcome: [error: null, socket: TLSSocket] | [error: Error, socket: null]) => void,
  ): void => {
    within(secure).then(
      (socket) => {
        onOpen(socket);
        done(null, hearing(freeing(socket)));
      },
      (error: Error) => done(error, null),
    );
  };
}
