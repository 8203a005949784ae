import { objectHeaders, writeConditions } from '../../objects/object-headers.ts';
import type { Bucket } from '../../objects/object-key.ts';
import { MAX_KEYS, type ObjectStore } from '../../objects/types.ts';
import type { Admission } from '../admission.ts';
import { numberOf } from '../exchange.ts';
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
import { bucketOf, type Operation } from './routes.ts';
import { COMPLETE_UPLOAD, CREATE_UPLOAD } from './schemas.ts';

type Name = Extract<Operation, `upload.${string}`>;

export function uploadHandlers(admission: Admission, store: ObjectStore): Handlers<Name> {
  return {
    'upload.create': async (admitted) => {
      const bucket = bucketOf(admitted.parts[0]);
      const { key, metadata = {}, ...about } = await readBody(admission, admitted, CREATE_UPLOAD, SMALL_BODY);
      const named = Object.entries(about).flatMap(([name, value]) =>
        value === undefined ? [] : [[name.replaceAll('_', '-'), value] as const],
      );
      const own = Object.entries(metadata).map(([name, value]) => [`${METADATA}${name}`, value] as const);
      const headers = objectHeaders(new Map([...named, ...own]), METADATA);
      const id = await store.createUpload(admitted.call, { bucket, key }, headers);
      answer(admitted, { upload_id: id, key });
    },
    'upload.part': async (admitted) => {
      const [bucket, id = '', number] = admitted.parts;
      const at = { bucket: bucketOf(bucket), id, number: numberOf(number, 0, 1, 10_000) };
      const headers = writeConditions(admitted.headers);
      const body = incomingBody(admitted);
      admission.transfer(admitted.exchange);
      const { etag } = await store.putPart(admitted.call, at, body, headers);
      answer(admitted, { etag, number: at.number, size: body.length });
    },
    'upload.parts': async (admitted) => {
      noBody(admitted);
      const after = numberOf(admitted.query.get('after'), 0, 0, 10_000);
      const limit = numberOf(admitted.query.get('limit'), MAX_KEYS, 1, MAX_KEYS);
      const { key, parts, next } = await store.listParts(admitted.call, uploadOf(admitted), { after, limit });
      answer(admitted, { key, parts, ...(next === undefined ? {} : { after: next }) });
    },
    'upload.complete': async (admitted) => {
      const at = uploadOf(admitted);
      const { parts } = await readBody(admission, admitted, COMPLETE_UPLOAD, LARGE_BODY);
      answer(admitted, await store.completeUpload(admitted.call, at, parts, {}));
    },
    'upload.abort': async (admitted) => {
      noBody(admitted);
      const at = uploadOf(admitted);
      await store.abortUpload(admitted.call, at);
      answer(admitted, { aborted: at.id });
    },
  };
}

function uploadOf({ parts: [bucket, id = ''] }: Admitted): { readonly bucket: Bucket; readonly id: string } {
  return { bucket: bucketOf(bucket), id };
}
