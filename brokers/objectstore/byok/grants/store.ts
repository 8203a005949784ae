import type { SharedSlots } from '@space/broker-kit';
import type { GrantOperation } from '../../../../manifests/driver/grant.ts';
import type { Bucket } from '../../objects/object-key.ts';
import type { ObjectCall, ObjectStore } from '../../objects/types.ts';
import type { Shares } from '../../quota/shares.ts';
import { S3Error } from '../../upstream/errors.ts';
import type { OpenGranted } from './open.ts';
import { demand, type Need } from './verify.ts';

/** The most time of a list from a Capsule's own server, in milliseconds. */
const LIST_MS = 30_000;

type RunShares = Pick<Shares, 'elsewhere' | 'lists'>;

/**
 * The store of both protocols, in the Space's bucket or, within the grant, in the Capsule's own. Requests to a
 * Capsule's own server, which may be slow, use no slot of those for the Space's, and only a few lists at the same time.
 */
export function createGrantedStore(managed: ObjectStore, open: OpenGranted, shares: RunShares): ObjectStore {
  const { run, runList } = runner(managed, open, shares);
  return {
    put: (call, ref, body, headers) =>
      run(call, [to('object.put', ref)], (store) => store.put(call, ref, body, headers)),
    get: (call, ref, conditions, sinkFor) =>
      run(call, [to('object.get', ref)], (store) => store.get(call, ref, conditions, sinkFor)),
    head: (call, ref, conditions) =>
      run(call, [to('object.head', ref)], (store) => store.head(call, ref, conditions)),
    delete: (call, ref, etag) =>
      run(call, [to('object.delete', ref)], (store) => store.delete(call, ref, etag)),
    deleteMany: (call, bucket, keys) =>
      runList(
        call,
        keys.map((key) => to('object.delete', { bucket, key })),
        (store, within) => store.deleteMany(within, bucket, keys),
      ),
    list: (call, bucket, query) =>
      runList(call, [to('object.list', { bucket, key: query.prefix })], (store, within) =>
        store.list(within, bucket, query),
      ),
    copy: (call, from, target, headers) =>
      run(call, [to('object.get', from), to('object.put', target)], (store) =>
        store.copy(call, from, target, headers),
      ),
    createUpload: (call, ref, headers) =>
      run(call, [to('object.put', ref)], (store) => store.createUpload(call, ref, headers)),
    // The key of an upload is in its row, so the store checks the grant when it reads the row.
    putPart: (call, at, body, headers) => run(call, [], (store) => store.putPart(call, at, body, headers)),
    copyPart: (call, at, from, headers) =>
      run(call, [to('object.get', from)], (store) => store.copyPart(call, at, from, headers)),
    listParts: (call, at, page) => runList(call, [], (store, within) => store.listParts(within, at, page)),
    completeUpload: (call, at, parts, headers) =>
      run(call, [], (store) => store.completeUpload(call, at, parts, headers)),
    abortUpload: (call, at) => run(call, [], (store) => store.abortUpload(call, at)),
    listUploads: (call, bucket, page) =>
      run(call, [to('object.list', { bucket, key: page.prefix })], (store) =>
        store.listUploads(call, bucket, page),
      ),
  };
}

const to = (
  operation: GrantOperation,
  { bucket, key }: { readonly bucket: Bucket; readonly key: string },
): Need => ({ operation, bucket, path: key });

/** Takes a slot, for which the request has to be fast until it gives it back. */
async function takeFor({ tenant, signal, holds }: ObjectCall, slots: SharedSlots): Promise<() => void> {
  const back = await slots.take(tenant.capsulePrefix, signal);
  const returned = holds?.(slots);
  return () => {
    returned?.();
    back();
  };
}

/** Runs an operation in its bucket, if the grant covers what it needs. */
function runner(managed: ObjectStore, open: OpenGranted, { elsewhere, lists }: RunShares) {
  async function run<T>(
    call: ObjectCall,
    needs: readonly Need[],
    act: (store: ObjectStore) => Promise<T>,
  ): Promise<T> {
    const granted = await open(call);
    if (granted === undefined) return act(managed);
    for (const need of needs) demand(granted.claims, need);
    call.isElsewhere?.();
    const back = await takeFor(call, elsewhere);
    try {
      return await act(granted.store);
    } finally {
      back();
    }
  }

  /** Runs an operation that returns a list. */
  async function runList<T>(
    call: ObjectCall,
    needs: readonly Need[],
    act: (store: ObjectStore, call: ObjectCall) => Promise<T>,
  ): Promise<T> {
    return run(call, needs, async (store) => {
      if (store === managed) return act(store, call);
      const back = await takeFor(call, lists);
      const late = new AbortController();
      const timer = setTimeout(() => late.abort(new S3Error('timeout', 0, 'ListTimeout')), LIST_MS);
      try {
        return await act(store, { ...call, signal: AbortSignal.any([call.signal, late.signal]) });
      } finally {
        clearTimeout(timer);
        back();
      }
    });
  }

  return { run, runList };
}
