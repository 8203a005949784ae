import { readFile } from 'node:fs/promises';
import type { ServerResponse } from 'node:http';
import { afterEach, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { makePki } from '../../../testing/certificates.ts';
import { makeGateway } from '../testing/gateway.ts';
import { startUpstream } from '../testing/upstream.ts';
import { DEFAULT_LIMITS } from './limits.ts';

/** The defaults. */

const HOST = 'api.model.org';
const TEN_MINUTES = 10 * 60_000;

afterEach(() => {
  vi.useRealTimers();
});

const turn = () => new Promise((resolve) => setImmediate(resolve));

it('an answer may take ten minutes to begin, and no longer', async () => {
  const pki = await makePki();
  const upstream = await startUpstream(await pki.issue(HOST));
  // Timers of sockets are Node's own and keep running.
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const test = await makeGateway({
    fixed: new Map([[HOST, { address: '127.0.0.1', port: upstream.port, ttl: 60, trusted: true }]]),
    authorities: pki.authority,
  });
  await test.put({}, { key: { host: HOST, routes: [{ method: 'GET', path: '/v1' }], header: 'X-Api-Key' } });
  const thinking: ServerResponse[] = [];
  upstream.answer = (_, response) => void thinking.push(response);
  /** Sends a request, and lets this much time pass before the answer. */
  const ask = async (ms: number) => {
    const before = thinking.length;
    const answer = test.raw(
      `GET /i/key/v1 HTTP/1.1\r\nhost: assistant-egress\r\nauthorization: Bearer ${test.principal}\r\nconnection: close\r\n\r\n`,
    );
    while (thinking.length === before) await turn();
    await vi.advanceTimersByTimeAsync(ms);
    thinking.at(-1)?.end('42');
    return answer;
  };
  expect(await ask(TEN_MINUTES - 1_000)).toMatch(/^HTTP\/1\.1 200 [\s\S]*42/);
  expect(await ask(TEN_MINUTES)).toMatch(/^HTTP\/1\.1 504 /);
  await test.close();
  await upstream.close();
  pki.remove();
});

it('the chart has the same default', async () => {
  const values = parse(await readFile(new URL('../../../charts/space/values.yaml', import.meta.url), 'utf8'));
  const { answerMs, bodyIdleMs, tunnelIdleMs } = DEFAULT_LIMITS;
  expect(values.egress.patience).toEqual({
    answer: answerMs / 1_000,
    body: bodyIdleMs / 1_000,
    tunnel: tunnelIdleMs / 1_000,
  });
});
