import { connect as connectTls, createSecureContext, rootCertificates, type SecureVersion } from 'node:tls';
import { DialError, type Dialler } from '@space/broker-kit';
import { Pool } from 'undici';
import { TLS_PORT } from '../core/authority.ts';
import { Problem } from '../core/problem.ts';
import type { Tenant } from '../policies/tenant.ts';
import type { DataLimits } from './limits.ts';

/** Connections to the hosts of stored inputs: each Assistant has its own, so that none meets what another left. */
export interface Upstreams {
  of(tenant: Tenant, host: string): Pool;
  close(): Promise<void>;
}

const KEEP_ALIVE_MS = 30_000;
const SWEEP_MS = 60_000;
const OLDEST: SecureVersion = 'TLSv1.2';

export function createUpstreams(options: {
  readonly dialler: Dialler;
  readonly limits: DataLimits;
  /** PEM of authorities beside those that Node knows. */
  readonly authorities?: string | undefined;
}): Upstreams {
  const { dialler, limits, authorities } = options;
  // Once for all connections: to read all authorities takes longer than a handshake.
  const secureContext = createSecureContext({
    minVersion: OLDEST,
    ...(authorities === undefined ? {} : { ca: [...rootCertificates, authorities] }),
  });
  let pools = new WeakMap<Tenant, Map<string, Pool>>();
  const all = new Set<{ readonly pool: Pool; usedAt: number; forget: () => void }>();

  function create(tenant: Tenant, host: string): Pool {
    const pool = new Pool(`https://${host}`, {
      connections: limits.requests,
      pipelining: 1,
      allowH2: false,
      headersTimeout: limits.answerMs,
      bodyTimeout: limits.bodyIdleMs,
      keepAliveTimeout: KEEP_ALIVE_MS,
      maxHeaderSize: 32 * 1024,
      connect: (_, done) => {
        secureSocket(host).then(
          (socket) => done(null, socket),
          (error: Error) => done(error, null),
        );
      },
    });
    const entry = { pool, usedAt: performance.now(), forget: () => void pools.get(tenant)?.delete(host) };
    all.add(entry);
    pool.on('drain', () => {
      entry.usedAt = performance.now();
    });
    return pool;
  }

  async function secureSocket(host: string) {
    const raw = await dialler.dial(host, TLS_PORT);
    const { promise, resolve, reject } = Promise.withResolvers<ReturnType<typeof connectTls>>();
    const socket = connectTls({
      socket: raw,
      servername: host,
      secureContext,
      ALPNProtocols: ['http/1.1'],
    });
    const timer = setTimeout(() => socket.destroy(new DialError('timeout')), limits.connectMs);
    const fail = (cause: Error) => {
      raw.destroy();
      reject(cause instanceof DialError ? cause : new Problem('upstream_untrusted', { cause }));
    };
    socket.once('error', fail);
    socket.once('secureConnect', () => {
      // Until the pool listens, an error must not end the process; the pool asks whether there was one.
      socket.off('error', fail).on('error', () => undefined);
      resolve(socket);
    });
    return promise.finally(() => clearTimeout(timer));
  }

  // An Assistant that has gone leaves its pool; what nobody uses is closed.
  const sweep = setInterval(() => {
    for (const entry of all) {
      const { pool, usedAt, forget } = entry;
      if (pool.stats.running + pool.stats.queued > 0 || performance.now() - usedAt < SWEEP_MS) continue;
      forget();
      all.delete(entry);
      void pool.close();
    }
  }, SWEEP_MS);
  sweep.unref();

  return {
    of(tenant, host) {
      const own = pools.get(tenant) ?? new Map<string, Pool>();
      pools.set(tenant, own);
      const pool = own.get(host) ?? create(tenant, host);
      own.set(host, pool);
      return pool;
    },
    async close() {
      clearInterval(sweep);
      pools = new WeakMap();
      await Promise.all([...all].map(({ pool }) => pool.destroy()));
    },
  };
}
