import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { digestOf, newToken, SharedSlots, Turns } from '@space/broker-kit';
import { afterAll, beforeAll, beforeEach, expect, it, vi } from 'vitest';
import type { Tenant } from '../objects/types.ts';
import { createAdmission } from './admission.ts';
import { beginExchange } from './exchange.ts';

/** Who shares the processor with whom: long bodies take turns only if there is somebody else. */

/** After this, nobody counts any more who has no request. */
const forgotten = () => void vi.advanceTimersByTime(10_000);
beforeAll(() => void vi.useFakeTimers({ toFake: ['performance'] }));
beforeEach(forgotten);
afterAll(() => void vi.useRealTimers());

const rate = { perSecond: 100, burst: 100 };
const slots = new SharedSlots({ total: 8, perKey: 4 });
const elsewhere = new SharedSlots({ total: 8, perKey: 4 });
const admission = createAdmission({
  tenants: { byDigest: async () => undefined, byHandle: async () => undefined },
  limits: { caller: rate, refusals: rate, streams: 4 },
  ...{ slots, elsewhere, documents: new SharedSlots({ total: 1, perKey: 1 }) },
  ...{ turns: new Turns(), passing: new Turns() },
});
afterAll(() => admission.close());

const tenant = (capsule: string): Tenant => ({
  ...{ capsule, app: 'app', capsulePrefix: `c/${capsule}/`, quotaBytes: 0 },
  prefixes: { data: `c/${capsule}/a/`, shared: `c/${capsule}/s/` },
  digest: digestOf(newToken('osw')),
});

async function admitted(capsule: string) {
  const request = new IncomingMessage(new Socket());
  const exchange = beginExchange(request, new ServerResponse(request));
  await admission.admit(exchange, tenant(capsule));
  return { exchange, call: admission.callOf(exchange, tenant(capsule), undefined) };
}

/** Goes on in the Capsule's own bucket, as the granted store does. */
async function elsewhereOf({ call }: Awaited<ReturnType<typeof admitted>>) {
  call.isElsewhere?.();
  return elsewhere.take(call.tenant.capsulePrefix);
}

it('bodies from a Capsule’s own bucket and those of one other Capsule wait for each other, wherever its bucket is', async () => {
  const own = await admitted('own');
  const back = await elsewhereOf(own);
  expect(own.call.passing.isShared()).toBe(false);
  const inside = await admitted('inside');
  expect([own, inside].map(({ call }) => call.passing.isShared())).toEqual([true, true]);
  inside.exchange.release?.();
  forgotten();
  expect(own.call.passing.isShared()).toBe(false);
  const other = await admitted('other');
  const otherBack = await elsewhereOf(other);
  expect([own, other].map(({ call }) => call.passing.isShared())).toEqual([true, true]);
  otherBack();
  forgotten();
  const again = await admitted('own');
  // A Capsule does not wait for itself.
  expect([own, again].map(({ call }) => call.passing.isShared())).toEqual([false, false]);
  again.exchange.release?.();
  back();
});

it('a Capsule counts for ten seconds after a request, so that its next one finds others’ bodies in turns', async () => {
  const [greedy, quiet] = [await admitted('greedy'), await admitted('quiet')];
  quiet.exchange.release?.();
  expect(greedy.call.passing.isShared()).toBe(true);
  vi.advanceTimersByTime(9_999);
  expect(greedy.call.passing.isShared()).toBe(true);
  vi.advanceTimersByTime(1);
  expect(greedy.call.passing.isShared()).toBe(false);
  const back = await elsewhereOf(await admitted('quiet'));
  forgotten();
  expect(greedy.call.passing.isShared()).toBe(true);
  back();
  expect(greedy.call.passing.isShared()).toBe(true);
  greedy.exchange.release?.();
  // It does not count for itself.
  forgotten();
  const again = await admitted('greedy');
  again.exchange.release?.();
  expect(again.call.passing.isShared()).toBe(false);
});
