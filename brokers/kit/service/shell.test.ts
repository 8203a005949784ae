import { createServer } from 'node:http';
import { expect, it } from 'vitest';
import { createLogger } from '../log.ts';
import { closeNow, createMetrics, portOf } from '../metrics.ts';
import { startShell } from './shell.ts';

const log = createLogger({ service: 'test', level: 'silent' });
const config = {
  ...{ LISTEN_HOST: '127.0.0.1', METRICS_PORT: 0, LEAVE_SECONDS: 0 },
  ...{ CONNECTIONS: 100, CONNECTIONS_PER_ADDRESS: 20 },
};

/** A service that records its steps; its control listener is at this port. */
async function start(steps: string[], port = 0, changes: Partial<typeof config> = {}) {
  return startShell({ ...config, ...changes }, log, async (held) => {
    steps.push('open');
    held.closers.push(() => steps.push('closed first'));
    held.closers.push(() => steps.push('closed second'));
    return {
      metrics: createMetrics(),
      listeners: {
        port: {
          name: 'control' as const,
          port,
          served: {
            listener: (_, response) => void response.end('served'),
            drain: () => void steps.push('drain'),
          },
        },
      },
      leave: () => void steps.push('leave'),
      upkeep: [
        {
          rounds: [
            {
              name: 'look',
              gapMs: 0,
              run: async (stopping) => {
                steps.push('upkeep');
                stopping.addEventListener('abort', () => steps.push('upkeep ends'));
              },
            },
          ],
          intervalMs: 60_000,
        },
      ],
      requestsMs: 1_000,
      leaving: [{ name: 'leaving', timeoutMs: 1_000, run: async () => void steps.push('leaving') }],
      parts: { answer: 42 },
    };
  });
}

it('opens resources at its start and closes them at its end, the last opened first', async () => {
  const steps: string[] = [];
  const { ports, parts, stop } = await start(steps);
  expect(parts).toEqual({ answer: 42 });
  const answer = await fetch(`http://127.0.0.1:${ports.port}/`, { headers: { connection: 'close' } });
  expect(await answer.text()).toBe('served');
  expect((await fetch(`http://127.0.0.1:${ports.metricsPort}/metrics`)).status).toBe(200);
  expect(await stop()).toBe(true);
  const order = [
    'open',
    'upkeep',
    'drain',
    'leave',
    'drain',
    'leaving',
    'upkeep ends',
    'closed second',
    'closed first',
  ];
  expect(steps).toEqual(order);
  await expect(fetch(`http://127.0.0.1:${ports.metricsPort}/metrics`)).rejects.toThrow();
});

it('continues to accept callers for a while when it is told to end, and closes their connections with each answer', async () => {
  const steps: string[] = [];
  const { ports, stop } = await start(steps, 0, { LEAVE_SECONDS: 60 });
  void stop();
  const { status, body } = await fetch(`http://127.0.0.1:${ports.port}/`);
  await body?.cancel();
  expect(status).toBe(200);
  expect(steps).toEqual(['open', 'upkeep', 'drain', 'leave']);
});

it('closes what it has opened if it cannot listen, and starts no upkeep', async () => {
  const taken = createServer();
  await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve));
  const steps: string[] = [];
  await expect(start(steps, portOf(taken))).rejects.toThrow(/EADDRINUSE/);
  expect(steps).toEqual(['open', 'closed second', 'closed first']);
  await closeNow(taken);
});
