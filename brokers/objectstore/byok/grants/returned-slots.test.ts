import { IncomingMessage, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import { digestOf, newToken, SharedSlots, Turns } from '@space/broker-kit';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { GrantClaims } from '../../../../manifests/driver/grant.ts';
import { createAdmission } from '../../api/admission.ts';
import { beginExchange, type Exchange } from '../../api/exchange.ts';
import type { ObjectKey } from '../../objects/object-key.ts';
import type { ObjectStore, Tenant } from '../../objects/types.ts';
import { createGrantedStore } from './store.ts';

/** Requests whose Capsule's own server has answered, while their answers are still being sent. */

beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }));
afterEach(() => void vi.useRealTimers());

const ALL = [{ bucket: 'data', prefix: '', operations: ['object.head', 'object.list'] }];
const claims = { allow: ALL } as unknown as GrantClaims;
const rate = { perSecond: 100, burst: 100 };
const queued = { queued: 4, queuedPerKey: 4, waitMs: 600_000 };

const tenant = (capsule: string): Tenant => ({
  ...{ capsule, app: 'app', capsulePrefix: `c/${capsule}/`, quotaBytes: 0 },
  prefixes: { data: `c/${capsule}/a/`, shared: `c/${capsule}/s/` },
  digest: digestOf(newToken('osw')),
});

/** Two places of each kind, a Capsule whose server answers when `answer` is called, and one that waits for places. */
function crowded() {
  const elsewhere = new SharedSlots({ total: 2, perKey: 2, ...queued });
  const lists = new SharedSlots({ total: 2, perKey: 2, ...queued });
  const answers: (() => void)[] = [];
  const act = () => new Promise<never>((resolve) => void answers.push(() => resolve({} as never)));
  const own = { head: act, list: act } as unknown as ObjectStore;
  const store = createGrantedStore({} as ObjectStore, async () => ({ claims, store: own }), {
    elsewhere,
    lists,
  });
  const admission = createAdmission({
    tenants: { byDigest: async (digest) => ({ digest }) as never, byHandle: async () => undefined },
    limits: { caller: rate, refusals: rate, streams: 8 },
    ...{ slots: new SharedSlots({ total: 8, perKey: 8 }), elsewhere },
    ...{ documents: new SharedSlots({ total: 1, perKey: 1 }), turns: new Turns(), passing: new Turns() },
    pace: { tickMs: 1_000, pressedWindowMs: 1_000 },
  });
  async function ask(capsule: string, operation: 'head' | 'list') {
    const request = new IncomingMessage(new Socket());
    const exchange = beginExchange(request, new ServerResponse(request));
    const call = admission.callOf(exchange, await admission.admit(exchange, tenant(capsule)), undefined);
    const work =
      operation === 'head'
        ? store.head(call, { bucket: 'data', key: 'key' as ObjectKey }, {})
        : store.list(call, 'data', { prefix: '' as never, delimiter: undefined, limit: 1 });
    return { exchange, work: work.catch(() => undefined) };
  }
  return { answers, elsewhere, lists, ask, close: () => admission.close() };
}

const isEnded = ({ exchange }: { readonly exchange: Exchange }) => exchange.abort.signal.aborted;

it.each(['head', 'list'] as const)(
  'are not ended for those who wait for places in place of a request that has one: %s',
  async (operation) => {
    const { answers, elsewhere, ask, close } = crowded();
    const answered = await ask('greedy', operation);
    await vi.waitFor(() => expect(answers).toHaveLength(1));
    answers[0]?.();
    await answered.work;
    const stuck = [await ask('greedy', operation), await ask('greedy', operation)];
    await vi.waitFor(() => expect(answers).toHaveLength(3));
    await ask('modest', operation);
    await vi.waitFor(() => expect(elsewhere.waiting).toBe(1));
    vi.advanceTimersByTime(2_000);
    expect([answered, ...stuck].map(isEnded)).toEqual([false, true, false]);
    close();
  },
);
