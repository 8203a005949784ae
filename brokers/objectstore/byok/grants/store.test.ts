import { digestOf, newToken, SharedSlots } from '@space/broker-kit';
import { afterEach, describe, expect, test, vi } from 'vitest';
import type { GrantClaims } from '../../../../manifests/driver/grant.ts';
import type { ObjectCall, ObjectStore } from '../../objects/types.ts';
import { S3Error } from '../../upstream/errors.ts';
import { atOnce } from '../../upstream/sinks.ts';
import { createGrantedStore } from './store.ts';

/** What the grant must allow, and that a Capsule's own server answers as late as it likes. How many of its lists are asked for at once is in `plane.test.ts`. */

afterEach(() => vi.useRealTimers());

const callOf = (capsule: string): ObjectCall => ({
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

/** A Capsule's own store, which answers its lists when the test says so, and ends aborted ones. */
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

type Entry = GrantClaims['allow'][number];
type Act = (store: ObjectStore, call: ObjectCall) => Promise<unknown>;

/** A store whose every operation succeeds at once and is recorded. */
function noting() {
  const done: string[] = [];
  const store = new Proxy({} as ObjectStore, { get: (_, name) => async () => done.push(String(name)) });
  return { done, store };
}

const slots = () => ({
  elsewhere: new SharedSlots({ total: 1, perKey: 1 }),
  lists: new SharedSlots({ total: 1, perKey: 1 }),
});

const entry = (bucket: Entry['bucket'], prefix: string, operation: Entry['operations'][number]): Entry => ({
  ...{ bucket, prefix, operations: [operation] },
});

const [from, target] = [
  { bucket: 'data', key: 'a/from' },
  { bucket: 'shared', key: 'b/to' },
] as never[];
const at = { bucket: 'data', id: '0'.repeat(32), number: 1 } as const;
const body = {} as never;

/** Each operation, and all that the grant must allow for it. What an upload is for is asked where its row is found. */
const OPERATIONS: readonly (readonly [name: string, act: Act, needs: readonly Entry[]])[] = [
  ['put', (store, call) => store.put(call, target!, body, {}), [entry('shared', 'b/', 'object.put')]],
  ['get', (store, call) => store.get(call, from!, {}, body), [entry('data', 'a/', 'object.get')]],
  ['head', (store, call) => store.head(call, from!, {}), [entry('data', 'a/', 'object.head')]],
  ['delete', (store, call) => store.delete(call, from!), [entry('data', 'a/', 'object.delete')]],
  [
    'deleteMany',
    (store, call) => store.deleteMany(call, 'data', ['a/x', 'b/x'] as never),
    [entry('data', 'a/', 'object.delete'), entry('data', 'b/', 'object.delete')],
  ],
  [
    'list',
    (store, call) => store.list(call, 'data', { prefix: 'a/' as never, limit: 1 }),
    [entry('data', 'a/', 'object.list')],
  ],
  [
    'copy',
    (store, call) => store.copy(call, from!, target!, {}),
    [entry('data', 'a/', 'object.get'), entry('shared', 'b/', 'object.put')],
  ],
  [
    'createUpload',
    (store, call) => store.createUpload(call, target!, {}),
    [entry('shared', 'b/', 'object.put')],
  ],
  ['putPart', (store, call) => store.putPart(call, at, body, {}), []],
  ['copyPart', (store, call) => store.copyPart(call, at, from!, {}), [entry('data', 'a/', 'object.get')]],
  ['listParts', (store, call) => store.listParts(call, at, page), []],
  ['completeUpload', (store, call) => store.completeUpload(call, at, [], {}), []],
  ['abortUpload', (store, call) => store.abortUpload(call, at), []],
  [
    'listUploads',
    (store, call) =>
      store.listUploads(call, 'data', { prefix: 'a/' as never, afterKey: '', afterId: '', limit: 1 }),
    [entry('data', 'a/', 'object.list')],
  ],
];

describe.each(OPERATIONS)('%s', (name, act, needs) => {
  test('is done in the Capsule’s own bucket with the operations of the grant, and refused with fewer', async () => {
    const [own, managed] = [noting(), noting()];
    const storeWith = (allow: readonly Entry[]) =>
      createGrantedStore(
        managed.store,
        async () => ({ claims: { allow } as GrantClaims, store: own.store }),
        slots(),
      );
    const isElsewhere = vi.fn();
    await act(storeWith(needs), { ...callOf('a'), isElsewhere });
    expect(own.done).toEqual([name]);
    expect(isElsewhere).toHaveBeenCalledOnce();
    for (const left of needs) {
      const fewer = storeWith(needs.filter((need) => need !== left));
      await expect(act(fewer, callOf('a'))).rejects.toMatchObject({ code: 'forbidden' });
    }
    expect(own.done).toEqual([name]);
    expect(managed.done).toEqual([]);
  });

  test('is done in the Space’s bucket if none is selected, and uses no slot of the own buckets', async () => {
    const managed = noting();
    const shares = slots();
    const signal = new AbortController().signal;
    await shares.elsewhere.take('c/a', signal);
    await shares.lists.take('c/a', signal);
    await act(
      createGrantedStore(managed.store, async () => undefined, shares),
      callOf('a'),
    );
    expect(managed.done).toEqual([name]);
  });

  test('returns its slots, and leaves no timer', async () => {
    vi.useFakeTimers();
    const own = noting();
    const store = createGrantedStore(
      {} as ObjectStore,
      async () => ({ claims: { allow: needs } as GrantClaims, store: own.store }),
      slots(),
    );
    await act(store, callOf('a'));
    await act(store, callOf('a'));
    expect(own.done).toEqual([name, name]);
    expect(vi.getTimerCount()).toBe(0);
  });
});

test('a slot is also returned if the Capsule’s server fails', async () => {
  const head = vi
    .fn()
    .mockRejectedValueOnce(new S3Error('timeout', 0, 'x'))
    .mockResolvedValue('there');
  const claims = { allow: [entry('data', '', 'object.head')] } as GrantClaims;
  const open = async () => ({ claims, store: { head } as unknown as ObjectStore });
  const store = createGrantedStore({} as ObjectStore, open, slots());
  await expect(store.head(callOf('a'), from!, {})).rejects.toThrow(S3Error);
  expect(await store.head(callOf('a'), from!, {})).toBe('there');
});

test('a list that takes half a minute in all is abandoned, and its slot is free', async () => {
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
