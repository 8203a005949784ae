import type { ServerResponse } from 'node:http';
import { ServiceError } from '@space/broker-kit';
import { answerHeaders, isHeaderValue, readConditions } from '../../objects/object-headers.ts';
import type { ObjectStore, Read } from '../../objects/types.ts';
import type { Head } from '../../upstream/relay.ts';
import type { Headers } from '../../upstream/types.ts';
import type { XmlElement } from '../../upstream/xml.ts';
import type { Admission } from '../admission.ts';
import { numberOf, writeHead } from '../exchange.ts';
import { type Admitted, answer, type Handlers, METADATA } from './request.ts';
import { bucketOf, keyOf, OVERRIDES } from './routes.ts';

type Name = 'GetObject' | 'HeadObject' | 'GetObjectAttributes';

const CHECKSUM_MODE = 'x-amz-checksum-mode';
const CHECKSUMS = ['crc32', 'crc32c', 'crc64nvme', 'sha1', 'sha256'] as const;
const CHECKSUM_TYPE = 'x-amz-checksum-type';
const PARTS_COUNT = 'x-amz-mp-parts-count';
/** Headers about an object with parts or checksums that are passed on. */
const TOLD = [...CHECKSUMS.map((name) => `x-amz-checksum-${name}`), CHECKSUM_TYPE, PARTS_COUNT];

/** Operations that read one object. */
export function readHandlers(store: ObjectStore, admission: Admission): Handlers<Name> {
  return {
    GetObject: async (admitted) => {
      const ref = readOf(admitted);
      const conditions = conditionsOf(admitted);
      const overrides = overridesOf(admitted);
      admission.transfer(admitted.exchange);
      await store.get(admitted.call, ref, conditions, (head) => beginAnswer(admitted, head, overrides));
    },
    HeadObject: async (admitted) => {
      const ref = readOf(admitted);
      const overrides = overridesOf(admitted);
      beginAnswer(admitted, await store.head(admitted.call, ref, conditionsOf(admitted)), overrides).end();
    },
    GetObjectAttributes: async (admitted) => {
      const wanted = attributesOf(admitted);
      const { headers } = await store.head(admitted.call, readOf(admitted), { [CHECKSUM_MODE]: 'ENABLED' });
      const modified = headers['last-modified'];
      if (modified !== undefined) admitted.exchange.common['last-modified'] = modified;
      const told = wanted.flatMap((name) => ATTRIBUTES[name]?.(headers) ?? []);
      answer(admitted, 'GetObjectAttributesResponse', told);
    },
  };
}

function readOf(admitted: Admitted): Read {
  const part = numberOf(admitted.query.get('partNumber'), 0, 1, 10_000);
  if (part > 0 && admitted.headers.has('range')) throw new ServiceError('invalid_request', 'part and range');
  return { bucket: bucketOf(admitted), key: keyOf(admitted), ...(part === 0 ? {} : { part }) };
}

function conditionsOf({ headers }: Admitted): Headers {
  const conditions = readConditions(headers);
  return headers.get(CHECKSUM_MODE)?.toUpperCase() === 'ENABLED'
    ? { ...conditions, [CHECKSUM_MODE]: 'ENABLED' }
    : conditions;
}

/** The query's replacements for headers of the answer. A browser may still not guess another type. */
function overridesOf({ query }: Admitted): Record<string, string> {
  const result: Record<string, string> = {};
  for (const [parameter, header] of Object.entries(OVERRIDES)) {
    const value = query.get(parameter);
    if (value === undefined) continue;
    if (!isHeaderValue(value)) throw new ServiceError('invalid_request', 'header of the answer');
    result[header] = value;
  }
  return result;
}

/** Sends the headers of an answer about an object. Only the object's own headers say how it may be cached. */
function beginAnswer(
  { exchange }: Admitted,
  { status, headers }: Head,
  overrides: Readonly<Record<string, string>>,
): ServerResponse {
  delete exchange.common['cache-control'];
  const told: Record<string, string> = {};
  for (const name of TOLD) if (headers[name] !== undefined) told[name] = headers[name];
  return writeHead(exchange, status, { ...answerHeaders(headers, METADATA), ...told, ...overrides });
}

const ATTRIBUTES: Readonly<Record<string, (headers: Headers) => readonly XmlElement[]>> = {
  ETag: ({ etag = '' }) => [['ETag', etag.replaceAll('"', '')]],
  ObjectSize: (headers) => [['ObjectSize', Number(headers['content-length'] ?? 0)]],
  StorageClass: () => [['StorageClass', 'STANDARD']],
  ObjectParts: ({ etag = '' }) => {
    const count = /-(\d{1,5})"?$/.exec(etag)?.[1];
    return count === undefined ? [] : [['ObjectParts', [['PartsCount', Number(count)]]]];
  },
  Checksum: (headers) => {
    const found = CHECKSUMS.flatMap((name) => {
      const value = headers[`x-amz-checksum-${name}`];
      return value === undefined ? [] : [[`Checksum${name.toUpperCase()}`, value] as const];
    });
    const type = headers[CHECKSUM_TYPE];
    if (found.length === 0) return [];
    return [['Checksum', type === undefined ? found : [...found, ['ChecksumType', type] as const]]];
  },
};

function attributesOf({ headers }: Admitted): readonly string[] {
  const names = (headers.get('x-amz-object-attributes') ?? '').split(',').map((name) => name.trim());
  if (!names.every((name) => Object.hasOwn(ATTRIBUTES, name)))
    throw new ServiceError('invalid_request', 'attributes');
  return names;
}
