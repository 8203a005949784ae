import { createLogger } from '@space/broker-kit';
import { Registry } from 'prom-client';
import { expect, it } from 'vitest';
import { createEgressMetrics } from '../metrics.ts';
import { Calls } from './calls.ts';
import { type Line, recorder } from './record.ts';

it('a record is counted once, however often it is read', async () => {
  const registry = new Registry();
  const metrics = createEgressMetrics(registry, () => ({
    policies: 1,
    connections: 1,
    waiting: 0,
    inStep: true,
  }));
  const lines: string[] = [];
  const log = createLogger({
    service: 'egress',
    level: 'info',
    destination: { write: (line) => void lines.push(line) },
  });
  const record = recorder(log, metrics, new Calls(Date.now));
  const line = (bytesIn: number): Line => ({
    traceId: '0'.repeat(32),
    operation: 'input',
    startedAt: performance.now(),
    code: 'ok',
    bytesOut: 10,
    bytesIn,
  });
  metrics.open.input += 1;
  record(line(100));
  await registry.metrics();
  record(line(1));
  metrics.open.input += 1;
  const text = await registry.metrics();
  expect(text).toBe(await registry.metrics());
  expect(text).toContain('space_egress_bytes_total{operation="input",direction="in"} 101\n');
  expect(text).toContain('space_egress_bytes_total{operation="input",direction="out"} 20\n');
  expect(text).toContain('space_egress_bytes_total{operation="connect",direction="in"} 0\n');
  expect(text).toContain('space_egress_open{operation="input"} 2\n');
  expect(text).toContain('space_egress_seconds_count{operation="input",code="ok"} 2\n');
  expect(lines.map((one) => JSON.parse(one))).toMatchObject([{ bytes_in: 100 }, { bytes_in: 1, code: 'ok' }]);
});

it('an Assistant has so many lines at once, and all of its requests are counted', async () => {
  const registry = new Registry();
  const state = () => ({ policies: 1, connections: 1, waiting: 0, inStep: true });
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const log = createLogger({ service: 'egress', level: 'info', destination });
  const record = recorder(log, createEgressMetrics(registry, state), new Calls(Date.now));
  const startedAt = performance.now();
  const line: Line = {
    traceId: '0'.repeat(32),
    operation: 'connect',
    startedAt,
    code: 'ok',
    bytesOut: 0,
    bytesIn: 0,
  };
  for (let i = 0; i < 100_000; i += 1) record(line);
  const seconds = Math.ceil((performance.now() - startedAt) / 1_000);
  expect(lines.length).toBeGreaterThanOrEqual(1_000);
  expect(lines.length).toBeLessThanOrEqual(1_000 + 50 * seconds);
  expect(await registry.metrics()).toContain(
    'space_egress_seconds_count{operation="connect",code="ok"} 100000\n',
  );
});
