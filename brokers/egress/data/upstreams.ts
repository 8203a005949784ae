import { constants } from 'node:crypto';
import {
  connect as connectTls,
  createSecureContext,
  rootCertificates,
  type SecureContext,
  type SecureVersion,
  type TLSSocket,
} from 'node:tls';
import {
  DialError,
  type Dialler,
  deadline,
  HOST_CIPHERS,
  onManyTickets,
  onNextHandshake,
} from '@space/broker-kit';
import { TLS_PORT } from '../core/authority.ts';
import { Problem } from '../core/problem.ts';
import type { Tenant } from '../policies/tenant.ts';
import { createBudget } from './budget.ts';
import { Connections } from './connections.ts';
import type { DataLimits } from './limits.ts';

/**
 * Connections to the hosts of stored inputs. Each Assistant has its own, so that no state is shared between Assistants.
 */
export interface Upstreams {
  of(tenant: Tenant, host: string): Connections;
  close(): Promise<void>;
}

interface Entry {
  readonly connections: Connections;
  usedAt: number;
  readonly forget: () => void;
}

const KEEP_ALIVE_MS = 30_000;
/**
 * Milliseconds: long enough to serve most requests that a stall has delayed, and short compared with a handshake with a
 * distant host.
 */
const OPEN_DELAY_MS = 10;
const SWEEP_MS = 60_000;
const OLDEST: SecureVersion = 'TLSv1.2';

export function createUpstreams(options: {
  readonly dialler: Dialler;
  readonly limits: DataLimits;
  /** Authorities in PEM, in addition to those of Node. */
  readonly authorities?: string | undefined;
}): Upstreams {
  const { dialler, limits, authorities } = options;
  // One context for all connections, since parsing all authorities takes longer than a handshake.
  const secureContext = createSecureContext({
    minVersion: OLDEST,
    ciphers: HOST_CIPHERS,
    // A host could have any number of handshakes made on one connection.
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    ...(authorities === undefined ? {} : { ca: [...rootCertificates, authorities] }),
  });
  let known = new WeakMap<Tenant, Map<string, Entry>>();
  const all = new Set<Entry>();
  // Each counts as one.
  const unused = createBudget(limits.unusedUpstreams);

  function create(tenant: Tenant, host: string): Entry {
    const connections = new Connections({
      origin: `https://${host}`,
      open: () => openSecure({ dialler, secureContext, connectMs: limits.connectMs }, host),
      most: limits.requests,
      keepMs: KEEP_ALIVE_MS,
      openDelayMs: OPEN_DELAY_MS,
      unused: (close) => unused.hold(tenant.capsule, 1, close),
      client: {
        // The relay has time-outs of its own.
        headersTimeout: 0,
        bodyTimeout: 0,
        keepAliveTimeout: KEEP_ALIVE_MS,
        // Whatever the host says.
        keepAliveMaxTimeout: KEEP_ALIVE_MS,
        maxHeaderSize: 32 * 1024,
      },
    });
    const entry = { connections, usedAt: 0, forget: () => void known.get(tenant)?.delete(host) };
    all.add(entry);
    return entry;
  }

  // Closes unused connections, such as those of an Assistant that is gone.
  const sweep = setInterval(() => {
    for (const entry of all) {
      if (entry.connections.inUse || performance.now() - entry.usedAt < SWEEP_MS) continue;
      entry.forget();
      all.delete(entry);
      void entry.connections.destroy();
    }
  }, SWEEP_MS);
  sweep.unref();

  return {
    of(tenant, host) {
      const own = known.get(tenant) ?? new Map<string, Entry>();
      known.set(tenant, own);
      const entry = own.get(host) ?? create(tenant, host);
      own.set(host, entry);
      entry.usedAt = performance.now();
      return entry.connections;
    },
    async close() {
      clearInterval(sweep);
      known = new WeakMap();
      await Promise.all([...all].map(({ connections }) => connections.destroy()));
    },
  };
}

/** Opens a verified TLS connection to the host, within the time limit. */
async function openSecure(
  {
    dialler,
    secureContext,
    connectMs,
  }: { readonly dialler: Dialler; readonly secureContext: SecureContext; readonly connectMs: number },
  host: string,
): Promise<TLSSocket> {
  const raw = await dialler.dial(host, TLS_PORT);
  const { promise, resolve, reject } = Promise.withResolvers<TLSSocket>();
  const socket = connectTls({ socket: raw, servername: host, secureContext, ALPNProtocols: ['http/1.1'] });
  const inTime = deadline(connectMs, () => socket.destroy(new DialError('timeout')));
  const fail = (cause: Error) => {
    raw.destroy();
    reject(cause instanceof DialError ? cause : new Problem('upstream_untrusted', { cause }));
  };
  socket.once('error', fail);
  socket.once('secureConnect', () => {
    // An error must not end the process before undici listens; undici checks whether there was one.
    socket.off('error', fail).on('error', () => undefined);
    const end = () => socket.destroy(new Problem('upstream_failed'));
    onNextHandshake(socket, end);
    onManyTickets(socket, end);
    resolve(socket);
  });
  return promise.finally(inTime);
}
