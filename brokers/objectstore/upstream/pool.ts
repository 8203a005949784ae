import { buildConnector, Pool } from 'undici';
import { freeing } from './pieces.ts';
import { PATIENCE } from './relay.ts';
import { routeOf } from './target.ts';

export interface PoolOptions {
  /** Connections at most; a stream in progress holds one. */
  readonly connections: number;
  /** PEM of the authority that the upstream's certificate must come from; else the system's. */
  readonly ca?: string | undefined;
}

/** Kept connections to one upstream, with a limit on every wait. */
export function createPool(target: Parameters<typeof routeOf>[0], { connections, ca }: PoolOptions): Pool {
  const dial = buildConnector({
    allowH2: false,
    timeout: 5_000,
    keepAlive: true,
    noDelay: true,
    ...(ca === undefined ? {} : { ca }),
  });
  return new Pool(routeOf(target).origin, {
    connections,
    pipelining: 1,
    allowH2: false,
    connect: (to, done) =>
      dial(to, (...[error, socket]) => (error === null ? done(null, freeing(socket)) : done(error, null))),
    headersTimeout: PATIENCE.headMs,
    bodyTimeout: PATIENCE.pieceMs,
    keepAliveTimeout: 20_000,
    maxHeaderSize: 16 * 1024,
    strictContentLength: true,
  });
}
