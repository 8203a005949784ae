import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client';
import { bind } from './bind.ts';

export interface ServiceMetrics {
  readonly registry: Registry;
  readonly requests: Histogram<'operation' | 'status' | 'code'>;
  readonly connections: Gauge<'listener'>;
  readonly refusedConnections: Counter<'listener' | 'reason'>;
  readonly upkeepEnds: Gauge<'round'>;
}

/** A registry with the process metrics and those of requests and connections that every service has. */
export function createMetrics(): ServiceMetrics {
  const registry = new Registry();
  // At the default of 10 ms, measuring the event loop's delay is most of an idle service's cost.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 100 });
  const requests = new Histogram({
    name: 'space_http_request_seconds',
    help: 'Time from the head of a request to the end of its answer, in seconds.',
    labelNames: ['operation', 'status', 'code'] as const,
    buckets: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30],
    registers: [registry],
  });
  const connections = new Gauge({
    name: 'space_connections',
    help: 'Open connections, by listener.',
    labelNames: ['listener'] as const,
    registers: [registry],
  });
  const refusedConnections = new Counter({
    name: 'space_connections_refused_total',
    help: 'Connections that were closed without reading a request, because their address had used its share or had the most of all.',
    labelNames: ['listener', 'reason'] as const,
    registers: [registry],
  });
  const upkeepEnds = new Gauge({
    name: 'space_upkeep_last_success_seconds',
    help: 'Time of the last successful round of the upkeep, in seconds since 1970.',
    labelNames: ['round'] as const,
    registers: [registry],
  });
  return { registry, requests, connections, refusedConnections, upkeepEnds };
}

/** Serves `/metrics` on a port of its own, which a NetworkPolicy opens only to monitoring. */
export async function serveMetrics(
  registry: Registry,
  address: { host: string | undefined; port: number },
): Promise<Server> {
  const server = createServer((request, response) => {
    if (request.method !== 'GET' || request.url !== '/metrics') {
      response.writeHead(404).end();
      return;
    }
    registry.metrics().then(
      (text) => response.writeHead(200, { 'content-type': registry.contentType }).end(text),
      () => response.writeHead(500).end(),
    );
  });
  await bind(server, address);
  return server;
}

/** Closes a server and all of its connections. */
export function closeNow(server: Server): Promise<void> {
  return new Promise((resolve) => {
    server.close(() => resolve());
    server.closeAllConnections();
  });
}

/** The port that a listening server got. */
export function portOf(server: { address(): AddressInfo | string | null }): number {
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('not listening on a port');
  return address.port;
}
