import { expect, test } from 'vitest';
import { fakeClock } from '../testing/fake-clock.ts';
import { sparingClient } from './breaker.ts';
import type { ApiClient } from './client.ts';
import { ApiError, TransportError } from './errors.ts';

const asked = { method: 'GET', path: '/' } as const;

/** A server that says what a test has it say, and how often it was asked. */
function server() {
  const clock = fakeClock();
  const state = { says: undefined as Error | undefined, sent: 0, clock };
  const client: ApiClient = {
    async call<T>() {
      state.sent += 1;
      if (state.says) throw state.says;
      return {} as T;
    },
    lines: async () => (async function* () {})(),
  };
  const sparing = sparingClient(client, clock);
  const call = () => sparing.call(asked).catch((error: Error) => error);
  const calls = async (times: number) => {
    for (let i = 0; i < times; i += 1) await call();
  };
  return Object.assign(state, { call, calls });
}

test('a server that answers no request is tried twice a second in all, until it answers', async () => {
  const away = server();
  away.says = new TransportError('no answer');
  await away.calls(100);
  expect(away.sent).toBe(5);
  expect(await away.call()).toBeInstanceOf(TransportError);
  for (let half = 0; half < 4; half += 1) {
    away.clock.advance(500);
    await away.calls(10);
  }
  expect(away.sent).toBe(9);
  away.says = undefined;
  away.clock.advance(500);
  await away.calls(10);
  expect(away.sent).toBe(19);
});

test('single calls without an answer stop no others, nor does a refusal', async () => {
  const busy = server();
  for (let i = 0; i < 20; i += 1) {
    busy.says = new TransportError('broke off');
    await busy.calls(4);
    busy.says = new ApiError({ status: 404, reason: 'NotFound', message: 'no' });
    await busy.calls(1);
  }
  expect(busy.sent).toBe(100);
});
