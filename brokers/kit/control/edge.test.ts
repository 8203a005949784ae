import { request } from 'node:http';
import type { Secret } from '@space/contracts/secret';
import { afterEach, expect, it } from 'vitest';
import { ServiceError } from '../errors.ts';
import { RateLimit } from '../limits.ts';
import { type Listener, listen } from '../listener.ts';
import { createLogger } from '../log.ts';
import { closeNow, createMetrics, portOf } from '../metrics.ts';
import { newToken } from '../tokens.ts';
import { Edge, sendJson } from './edge.ts';

let listener: Listener;
afterEach(() => closeNow(listener.server));

/** One route, which one token may call; counts the look-ups. */
async function serving(burst: number, unknown: () => undefined = () => undefined) {
  const known = newToken('dbp').reveal();
  let lookUps = 0;
  const log = createLogger({ service: 'test', level: 'silent' });
  const metrics = createMetrics();
  const edge = new Edge<string>({
    bodyLimit: 1_024,
    callerKey: () => undefined,
    callerLimit: new RateLimit({ perSecond: 1, burst: 1 }),
    failureLimit: new RateLimit({ perSecond: 0.001, burst }),
    translate: (error) => error,
    log,
    metrics,
  });
  const authority = {
    audience: 'dbp' as const,
    authenticate: async (token: Secret<string> | undefined) => {
      lookUps += 1;
      return token?.reveal() === known ? 'somebody' : unknown();
    },
  };
  const look = edge.serve({ method: 'GET', operation: 'look', authority }, (_, response) =>
    sendJson(response, 200, '{}'),
  );
  const served = { listener: edge.listener(look), drain: () => edge.drain() };
  const connections = { total: 100, perAddress: 20 };
  listener = await listen(served, { name: 'control', host: '127.0.0.1', port: 0, connections, log, metrics });
  const ask = (from: string, token: string) =>
    new Promise<number | undefined>((resolve, reject) => {
      const headers = { authorization: `Bearer ${token}` };
      request(
        { host: '127.0.0.1', port: portOf(listener.server), localAddress: from, headers, agent: false },
        (response) => {
          response.resume();
          resolve(response.statusCode);
        },
      )
        .once('error', reject)
        .end();
    });
  return { known, ask, lookUps: () => lookUps };
}

it('an address that was refused too often is refused before any look-up, and no other is', async () => {
  const { known, ask, lookUps } = await serving(3);
  const statuses = [];
  for (let i = 0; i < 5; i += 1) statuses.push(await ask('127.0.0.2', newToken('dbp').reveal()));
  expect(statuses).toEqual([403, 403, 403, 429, 429]);
  expect(lookUps()).toBe(3);
  expect(await ask('127.0.0.3', known)).toBe(200);
  // This is what the container's own health check does, whose limit no other caller can use up.
  expect(await ask('127.0.0.1', newToken('dbp').reveal())).toBe(403);
});

it('a credential that could not be looked up counts as refused', async () => {
  const { known, ask, lookUps } = await serving(2, () => {
    throw new ServiceError('unavailable', 'a registry is away');
  });
  const statuses = [];
  for (let i = 0; i < 4; i += 1) statuses.push(await ask('127.0.0.2', newToken('dbp').reveal()));
  expect(statuses).toEqual([503, 503, 429, 429]);
  expect(lookUps()).toBe(2);
  expect(await ask('127.0.0.3', known)).toBe(200);
});
