import { ServiceError } from '@space/broker-kit';
import { writeHead } from '../data/exchange.ts';
import { answerHeaders, readConditions, writeConditions } from '../data/headers.ts';
import { decodePath, type ObjectKey, parseKey } from '../data/keys.ts';
import type { Gate } from '../data/plane.ts';
import { MAX_KEYS, type ObjectStore } from '../data/store.ts';
import { childrenOf, textOf, type XmlElement } from '../upstream/xml.ts';
import {
  type Admitted,
  answer,
  bodyOf,
  bucketOf,
  document,
  type Handlers,
  keyOf,
  METADATA,
  malformed,
  ownHeaders,
} from './admitted.ts';
import { sourceOf } from './headers.ts';

type Name = 'GetObject' | 'HeadObject' | 'PutObject' | 'CopyObject' | 'DeleteObject' | 'DeleteObjects';

/** Objects that come and go whole. */
export function objectHandlers(store: ObjectStore, gate: Gate): Handlers<Name> {
  return {
    GetObject: async (one) => {
      const conditions = readConditions(one.headers);
      const key = readableKey(one);
      gate.transfer(one.exchange);
      await store.get(one.call, { bucket: bucketOf(one), key }, conditions, (head) =>
        writeHead(one.exchange, head.status, answerHeaders(head.headers, METADATA)),
      );
    },
    HeadObject: async (one) => {
      const place = { bucket: bucketOf(one), key: readableKey(one) };
      const head = await store.head(one.call, place, readConditions(one.headers));
      writeHead(one.exchange, head.status, answerHeaders(head.headers, METADATA)).end();
    },
    PutObject: async (one) => {
      const body = bodyOf(one);
      // What was verified here is not asked of the upstream again.
      const { 'content-md5': _verified, ...conditions } = writeConditions(one.headers);
      const headers = { ...ownHeaders(one.headers), ...conditions };
      const place = { bucket: bucketOf(one), key: keyOf(one) };
      gate.transfer(one.exchange);
      const { etag } = await store.put(one.call, place, body, headers);
      writeHead(one.exchange, 200, { ...body.checksums, etag, 'content-length': 0 }).end();
    },
    CopyObject: async (one) => {
      const directive = one.headers.get('x-amz-metadata-directive') ?? 'COPY';
      const replace = directive === 'REPLACE';
      if (!replace && directive !== 'COPY') throw new ServiceError('invalid_request', 'metadata directive');
      const headers = { 'x-amz-metadata-directive': directive, ...(replace ? ownHeaders(one.headers) : {}) };
      const to = { bucket: bucketOf(one), key: keyOf(one) };
      const { etag, modified } = await store.copy(one.call, sourceOf(one.headers), to, headers);
      answer(one, 'CopyObjectResult', [
        ['LastModified', modified],
        ['ETag', etag],
      ]);
    },
    DeleteObject: async (one) => {
      const place = { bucket: bucketOf(one), key: parseKey(decodePath(one.rawKey) ?? '') };
      // S3 has nothing to say about the removal of what cannot be.
      if (place.key === undefined) readableKey(one);
      else await store.delete(one.call, { ...place, key: place.key }, one.headers.get('if-match'));
      writeHead(one.exchange, 204, {}).end();
    },
    DeleteObjects: async (one) => {
      const bucket = bucketOf(one);
      const node = await document(gate, one, 'Delete');
      const asked = childrenOf(node, 'Object').map((child) => textOf(child, 'Key') ?? '');
      if (asked.length < 1 || asked.length > MAX_KEYS) throw malformed();
      const keysOf = asked.map((text) => ({ text, key: parseKey(text) }));
      const valid = keysOf.flatMap(({ key }) => key ?? []);
      const failed = valid.length === 0 ? new Set<string>() : await store.deleteMany(one.call, bucket, valid);
      const quiet = textOf(node, 'Quiet') === 'true';
      const results = keysOf.flatMap(({ text, key }): XmlElement[] => {
        if (key === undefined)
          return [
            [
              'Error',
              [
                ['Key', text],
                ['Code', 'InvalidArgument'],
                ['Message', ''],
              ],
            ],
          ];
        if (failed.has(key))
          return [
            [
              'Error',
              [
                ['Key', text],
                ['Code', 'InternalError'],
                ['Message', ''],
              ],
            ],
          ];
        return quiet ? [] : [['Deleted', [['Key', text]]]];
      });
      answer(one, 'DeleteResult', results);
    },
  };
}

/** Clients look for directories by names that end in a slash; such an object is never there. */
function readableKey(one: Admitted): ObjectKey {
  const text = decodePath(one.rawKey) ?? '';
  if (text.endsWith('/') && parseKey(text.slice(0, -1)) !== undefined)
    throw new ServiceError('not_found', 'no object is named like a directory');
  return keyOf(one);
}
