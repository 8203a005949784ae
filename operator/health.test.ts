import type { AddressInfo } from 'node:net';
import { Registry } from 'prom-client';
import { expect, test } from 'vitest';
import { serveHealth, serveMetrics } from './health.ts';
import { operatorMetrics } from './metrics.ts';
import { runtimeMetrics } from './runtime/metrics.ts';

const ask = async (port: number, path: string) => {
  const answer = await fetch(`http://127.0.0.1:${port}${path}`);
  return { status: answer.status, text: await answer.text() };
};

test('readiness follows the controllers, liveness does not', async () => {
  let ready = false;
  const server = await serveHealth(0, { live: () => true, ready: () => ready });
  const { port } = server.address() as AddressInfo;
  expect((await ask(port, '/readyz')).status).toBe(503);
  expect((await ask(port, '/healthz')).status).toBe(200);
  ready = true;
  expect((await ask(port, '/readyz?verbose')).status).toBe(200);
  expect((await ask(port, '/')).status).toBe(404);
  server.close();
});

test.each(['127.0.0.1', '[::1]'])(
  'a kubelet with an address of one family reaches the health check at %s',
  async (host) => {
    const server = await serveHealth(0, { live: () => true, ready: () => true });
    const { port } = server.address() as AddressInfo;
    expect((await fetch(`http://${host}:${port}/healthz`)).status).toBe(200);
    server.close();
  },
);

test('metrics have controller-runtime’s names, and the gate’s verdict', async () => {
  const registry = new Registry();
  const metrics = runtimeMetrics(registry);
  metrics.controller('capsule', 8).onOutcome('error', 5);
  metrics.observeCall('GET', '200');
  metrics.observeWrite('patch', 'Capsule');
  const own = operatorMetrics(registry);
  own.observeGate({ status: 'True', reason: 'SandboxAvailable', message: '' });
  own.observeGate({ status: 'False', reason: 'HandlerMismatch', message: '' });
  const server = await serveMetrics(0, registry);
  const { text } = await ask((server.address() as AddressInfo).port, '/metrics');
  for (const line of [
    'controller_runtime_reconcile_total{controller="capsule",result="error"} 1',
    'controller_runtime_reconcile_errors_total{controller="capsule"} 1',
    'controller_runtime_max_concurrent_reconciles{controller="capsule"} 8',
    'rest_client_requests_total{code="200",method="GET"} 1',
    'space_operator_writes_total{verb="patch",kind="Capsule"} 1',
    'space_operator_sandbox_open{reason="HandlerMismatch"} 0',
  ]) {
    expect(text).toContain(line);
  }
  expect(text).not.toContain('SandboxAvailable');
  server.close();
});
