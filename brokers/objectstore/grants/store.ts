import type { GrantOperation } from '../../../manifests/driver/grant.ts';
import type { Bucket } from '../data/address.ts';
import type { Call, ObjectStore } from '../data/store.ts';
import { demand, type Need } from './allow.ts';
import type { OpenGranted } from './open.ts';

/** The store as both protocols know it, in the Space's bucket or, as far as the grant goes, in the Capsule's own. */
export function createGrantedStore(managed: ObjectStore, open: OpenGranted): ObjectStore {
  async function run<T>(
    call: Call,
    needs: readonly Need[],
    act: (store: ObjectStore) => Promise<T>,
  ): Promise<T> {
    const granted = await open(call);
    if (granted === undefined) return act(managed);
    for (const need of needs) demand(granted.claims, need);
    return act(granted.store);
  }
  const to = (
    operation: GrantOperation,
    { bucket, key }: { readonly bucket: Bucket; readonly key: string },
  ): Need => ({ operation, bucket, path: key });

  return {
    put: (call, place, body, headers) =>
      run(call, [to('object.put', place)], (store) => store.put(call, place, body, headers)),
    get: (call, place, headers, into) =>
      run(call, [to('object.get', place)], (store) => store.get(call, place, headers, into)),
    head: (call, place, headers) =>
      run(call, [to('object.head', place)], (store) => store.head(call, place, headers)),
    delete: (call, place, etag) =>
      run(call, [to('object.delete', place)], (store) => store.delete(call, place, etag)),
    deleteMany: (call, bucket, keys) =>
      run(
        call,
        keys.map((key) => to('object.delete', { bucket, key })),
        (store) => store.deleteMany(call, bucket, keys),
      ),
    list: (call, bucket, query) =>
      run(call, [to('object.list', { bucket, key: query.prefix })], (store) =>
        store.list(call, bucket, query),
      ),
    copy: (call, from, target, headers) =>
      run(call, [to('object.get', from), to('object.put', target)], (store) =>
        store.copy(call, from, target, headers),
      ),
    createUpload: (call, place, headers) =>
      run(call, [to('object.put', place)], (store) => store.createUpload(call, place, headers)),
    // What an upload is for is in its row: the store asks for that where it finds it.
    putPart: (call, at, body, headers) => run(call, [], (store) => store.putPart(call, at, body, headers)),
    copyPart: (call, at, from, headers) =>
      run(call, [to('object.get', from)], (store) => store.copyPart(call, at, from, headers)),
    listParts: (call, at, page) => run(call, [], (store) => store.listParts(call, at, page)),
    completeUpload: (call, at, parts, headers) =>
      run(call, [], (store) => store.completeUpload(call, at, parts, headers)),
    abortUpload: (call, at) => run(call, [], (store) => store.abortUpload(call, at)),
    listUploads: (call, bucket, page) =>
      run(call, [to('object.list', { bucket, key: page.prefix })], (store) =>
        store.listUploads(call, bucket, page),
      ),
  };
}
