import { ServiceError } from '@space/broker-kit';
import {
  answerHeaders,
  deleteCondition,
  objectHeaders,
  readConditions,
  writeConditions,
} from '../../objects/object-headers.ts';
import { type KeyPrefix, parsePrefix } from '../../objects/object-key.ts';
import { MAX_KEYS, type ObjectStore } from '../../objects/types.ts';
import type { Admission } from '../admission.ts';
import type { Cursors } from '../cursors.ts';
import { numberOf, writeHead } from '../exchange.ts';
import {
  type Admitted,
  answer,
  type Handlers,
  incomingBody,
  LARGE_BODY,
  METADATA,
  noBody,
  readBody,
  SMALL_BODY,
} from './request.ts';
import { bucketOf, keyOf, type Operation } from './routes.ts';
import { COPY, DELETE_MANY } from './schemas.ts';

type Name = Extract<Operation, `object.${string}`>;

export function objectHandlers(admission: Admission, store: ObjectStore, cursors: Cursors): Handlers<Name> {
  return {
    'object.put': async (admitted) => {
      const headers = { ...objectHeaders(admitted.headers, METADATA), ...writeConditions(admitted.headers) };
      const ref = refOf(admitted);
      const body = incomingBody(admitted);
      admission.transfer(admitted.exchange);
      const { etag } = await store.put(admitted.call, ref, body, headers);
      answer(admitted, { etag, size: body.length });
    },
    'object.get': async (admitted) => {
      noBody(admitted);
      const conditions = readConditions(admitted.headers);
      const ref = refOf(admitted);
      admission.transfer(admitted.exchange);
      await store.get(admitted.call, ref, conditions, (head) =>
        writeHead(admitted.exchange, head.status, answerHeaders(head.headers, METADATA)),
      );
    },
    'object.head': async (admitted) => {
      noBody(admitted);
      const head = await store.head(admitted.call, refOf(admitted), readConditions(admitted.headers));
      writeHead(admitted.exchange, head.status, answerHeaders(head.headers, METADATA)).end();
    },
    'object.delete': async (admitted) => {
      noBody(admitted);
      const ref = refOf(admitted);
      await store.delete(admitted.call, ref, deleteCondition(admitted.headers));
      answer(admitted, { deleted: ref.key });
    },
    'object.list': async (admitted) => {
      noBody(admitted);
      const bucket = bucketOf(admitted.parts[0]);
      const prefix = prefixOf(admitted.query.get('prefix'));
      const delimiter = admitted.query.get('delimiter');
      if (delimiter !== undefined && delimiter !== '/')
        throw new ServiceError('invalid_request', 'delimiter');
      const limit = numberOf(admitted.query.get('limit'), MAX_KEYS, 1, MAX_KEYS);
      const owner = [admitted.call.tenant.prefixes[bucket], prefix, delimiter ?? ''];
      const token = openCursor(cursors, owner, admitted.query.get('cursor'));
      const page = await store.list(admitted.call, bucket, { prefix, delimiter, token, limit });
      const cursor = page.next === undefined ? {} : { cursor: cursors.seal(owner, page.next) };
      answer(admitted, { objects: page.objects, prefixes: page.prefixes, ...cursor });
    },
    'object.copy': async (admitted) => {
      const bucket = bucketOf(admitted.parts[0]);
      const body = await readBody(admission, admitted, COPY, SMALL_BODY);
      const from = { bucket: body.from_bucket ?? bucket, key: body.from };
      const { etag, modified, size } = await store.copy(admitted.call, from, { bucket, key: body.to }, {});
      answer(admitted, { etag, modified, size });
    },
    'object.delete-many': async (admitted) => {
      const bucket = bucketOf(admitted.parts[0]);
      const { keys } = await readBody(admission, admitted, DELETE_MANY, LARGE_BODY);
      const failed = await store.deleteMany(admitted.call, bucket, keys);
      answer(admitted, {
        deleted: keys.filter((key) => !failed.has(key)),
        failed: keys.filter((key) => failed.has(key)),
      });
    },
  };
}

function openCursor(
  cursors: Cursors,
  owner: readonly string[],
  text: string | undefined,
): string | undefined {
  if (text === undefined) return undefined;
  const token = cursors.open(owner, text);
  if (token === undefined) throw new ServiceError('invalid_request', 'cursor');
  return token;
}

function refOf({ parts: [bucket, key] }: Admitted) {
  return { bucket: bucketOf(bucket), key: keyOf(key) };
}

function prefixOf(text: string | undefined): KeyPrefix {
  const prefix = parsePrefix(text ?? '');
  if (prefix === undefined) throw new ServiceError('invalid_request', 'not a prefix');
  return prefix;
}
