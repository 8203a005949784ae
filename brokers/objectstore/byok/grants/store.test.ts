import { digestOf, newToken, SharedSlots } from '@space/broker-kit';
import { afterEach, expect, test, vi } from 'vitest';
import type { GrantClaims } from '../../../../manifests/driver/grant.ts';
import type { Call, ObjectStore } from '../../objects/types.ts';
import { S3Error } from '../../upstream/errors.ts';
import { atOnce } from '../../upstream/sinks.ts';
import { createGrantedStore } from './store.ts';

/** A Capsule's own server answers as late as it likes. How many of its lists are asked for at once is in `plane.test.ts`. */

afterEach(() => vi.useRealTimers());

const callOf = (capsule: string): Call => ({
  tenant: {
    capsule,
    app: 'app',
    capsulePrefix: `c/${capsule}`,
    prefixes: { data: `c/${capsule}/a`, shared: `c/${capsule}/s` },
    quotaBytes: 0,
    digest: digestOf(newToken('osw')),
  },
  signal: new AbortController().signal,
  inTurn: atOnce,
  passing: { isShared: () => false, inTurn: atOnce },
});

/** A store of somebody's own that answers its lists when it is told to, and ends what is given up. */
function slow() {
  const waiting: { readonly capsule: string; readonly answer: () => void }[] = [];
  const listParts: ObjectStore['listParts'] = ({ tenant, signal }) =>
    new Promise((resolve, reject) => {
      const answer = () => resolve({ key: 'key', parts: [], next: undefined });
      waiting.push({ capsule: tenant.capsule, answer });
      signal.addEventListener('abort', () => reject(signal.reason));
    });
  return { waiting, store: { listParts } as ObjectStore };
}

function granted(own: ObjectStore): ObjectStore {
  const managed = {} as ObjectStore;
  const elsewhere = new SharedSlots({ total: 10, perKey: 10 });
  const lists = new SharedSlots({ total: 2, perKey: 1, queued: 4 });
  // A list of parts needs nothing of the grant: the upload was granted.
  return createGrantedStore(managed, async () => ({ claims: {} as GrantClaims, store: own }), {
    elsewhere,
    lists,
  });
}

const upload: Parameters<ObjectStore['listParts']>[1] = { bucket: 'data', id: '0'.repeat(32) };
const page = { after: 0, limit: 1 };

test('a list that takes half a minute in all is given up, and its place is free', async () => {
  vi.useFakeTimers();
  const { waiting, store } = slow();
  const lists = granted(store);
  const late = lists.listParts(callOf('a'), upload, page).catch((error: unknown) => error);
  await vi.waitFor(() => expect(waiting).toHaveLength(1));
  await vi.advanceTimersByTimeAsync(30_000);
  expect(await late).toEqual(new S3Error('timeout', 0, 'ListTimeout'));
  const next = lists.listParts(callOf('a'), upload, page);
  await vi.waitFor(() => expect(waiting).toHaveLength(2));
  waiting[1]?.answer();
  await next;
});
