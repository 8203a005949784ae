import type { IncomingMessage } from 'node:http';
import {
  bearerToken,
  checkBodyHead,
  digestOf,
  errorBody,
  isToken,
  newToken,
  readJsonObject,
  type Secret,
  ServiceError,
} from '@space/broker-kit';
import type * as z from 'zod';
import { objectHeaders } from '../../objects/object-headers.ts';
import { type KeyPrefix, parsePrefix } from '../../objects/object-key.ts';
import type { Bucket } from '../../objects/prefix.ts';
import {
  type Call,
  type IncomingBody,
  MAX_KEYS,
  type ObjectStore,
  type Tenant,
} from '../../objects/types.ts';
import { MAX_PUT_BYTES } from '../../objects/writer.ts';
import type { Tenants } from '../../principals/tenants.ts';
import type { Usage } from '../../quota/rows.ts';
import type { Admission } from '../admission.ts';
import type { Seal } from '../cursors.ts';
import { type Exchange, numberOf, type Protocol, writeHead, writeJson } from '../exchange.ts';
import {
  answerHeaders,
  deleteCondition,
  type Received,
  readConditions,
  receivedHeaders,
  writeConditions,
} from '../headers.ts';
import { detach } from '../request-body.ts';
import { bucketOf, keyOf, type Matched, matchRoute, type Operation, queryOf } from './routes.ts';
import { type BodyOf, COMPLETE_UPLOAD, COPY, CREATE_UPLOAD, DELETE_MANY, parseBody } from './schemas.ts';

/** How callers name their own metadata. */
const METADATA = 'x-object-meta-';
const GRANT = 'platform-grant';
const SMALL_BODY = 16 * 1024;
const LARGE_BODY = 1024 * 1024;
/** Looked up instead of a credential that is missing, so that a refusal costs the same work as any other. */
const NOBODY = digestOf(newToken('osw'));

export interface JsonOptions {
  readonly admission: Admission;
  readonly tenants: Tenants;
  readonly store: ObjectStore;
  readonly cursors: Seal;
  /** What the tenant's Capsule uses of its quota. */
  readonly usage: (tenant: Tenant) => Promise<Usage>;
  /** The S3 keys of a tenant, as the container credential providers of the AWS SDKs read them. */
  readonly s3Credentials: (tenant: Tenant) => Readonly<Record<string, string>>;
}

/** A request that was let in. */
interface Admitted extends Matched {
  readonly exchange: Exchange;
  readonly call: Call;
  readonly headers: Received;
  readonly query: ReadonlyMap<string, string>;
}

type Handler = (admitted: Admitted) => Promise<void>;

/** The routes of `docs/wire/objectstore-data.md`. */
export function createJsonProtocol(options: JsonOptions): Protocol {
  const { admission, tenants, store, cursors, usage, s3Credentials } = options;
  const handlers: Readonly<Record<Exclude<Operation, 'healthz'>, Handler>> = {
    'quota.usage': async (one) => {
      noBody(one);
      answer(one, { ...(await usage(one.call.tenant)) });
    },
    's3.credentials': async (one) => {
      noBody(one);
      answer(one, s3Credentials(one.call.tenant));
    },
    'object.put': async (one) => {
      const headers = { ...objectHeaders(one.headers, METADATA), ...writeConditions(one.headers) };
      const ref = refOf(one);
      const body = incomingBody(one);
      admission.transfer(one.exchange);
      const { etag } = await store.put(one.call, ref, body, headers);
      answer(one, { etag, size: body.length });
    },
    'object.get': async (one) => {
      noBody(one);
      const conditions = readConditions(one.headers);
      const ref = refOf(one);
      admission.transfer(one.exchange);
      await store.get(one.call, ref, conditions, (head) =>
        writeHead(one.exchange, head.status, answerHeaders(head.headers, METADATA)),
      );
    },
    'object.head': async (one) => {
      noBody(one);
      const head = await store.head(one.call, refOf(one), readConditions(one.headers));
      writeHead(one.exchange, head.status, answerHeaders(head.headers, METADATA)).end();
    },
    'object.delete': async (one) => {
      noBody(one);
      const ref = refOf(one);
      await store.delete(one.call, ref, deleteCondition(one.headers));
      answer(one, { deleted: ref.key });
    },
    'object.list': async (one) => {
      noBody(one);
      const bucket = bucketOf(one.parts[0]);
      const prefix = prefixOf(one.query.get('prefix'));
      const delimiter = one.query.get('delimiter');
      if (delimiter !== undefined && delimiter !== '/')
        throw new ServiceError('invalid_request', 'delimiter');
      const limit = numberOf(one.query.get('limit'), MAX_KEYS, 1, MAX_KEYS);
      const owner = [one.call.tenant.prefixes[bucket], prefix, delimiter ?? ''];
      const token = openCursor(owner, one.query.get('cursor'));
      const page = await store.list(one.call, bucket, { prefix, delimiter, token, limit });
      const cursor = page.next === undefined ? {} : { cursor: cursors.seal(owner, page.next) };
      answer(one, { objects: page.objects, prefixes: page.prefixes, ...cursor });
    },
    'upload.create': async (one) => {
      const bucket = bucketOf(one.parts[0]);
      const { key, metadata = {}, ...about } = await json(one, CREATE_UPLOAD, SMALL_BODY);
      const named = Object.entries(about).flatMap(([name, value]) =>
        value === undefined ? [] : [[name.replaceAll('_', '-'), value] as const],
      );
      const own = Object.entries(metadata).map(([name, value]) => [`${METADATA}${name}`, value] as const);
      const headers = objectHeaders(new Map([...named, ...own]), METADATA);
      const id = await store.createUpload(one.call, { bucket, key }, headers);
      answer(one, { upload_id: id, key });
    },
    'upload.part': async (one) => {
      const [bucket, id = '', number] = one.parts;
      const at = { bucket: bucketOf(bucket), id, number: numberOf(number, 0, 1, 10_000) };
      const headers = writeConditions(one.headers);
      const body = incomingBody(one);
      admission.transfer(one.exchange);
      const { etag } = await store.putPart(one.call, at, body, headers);
      answer(one, { etag, number: at.number, size: body.length });
    },
    'upload.parts': async (one) => {
      noBody(one);
      const after = numberOf(one.query.get('after'), 0, 0, 10_000);
      const limit = numberOf(one.query.get('limit'), MAX_KEYS, 1, MAX_KEYS);
      const { key, parts, next } = await store.listParts(one.call, uploadOf(one), { after, limit });
      answer(one, { key, parts, ...(next === undefined ? {} : { after: next }) });
    },
    'upload.complete': async (one) => {
      const at = uploadOf(one);
      const { parts } = await json(one, COMPLETE_UPLOAD, LARGE_BODY);
      answer(one, await store.completeUpload(one.call, at, parts, {}));
    },
    'upload.abort': async (one) => {
      noBody(one);
      const at = uploadOf(one);
      await store.abortUpload(one.call, at);
      answer(one, { aborted: at.id });
    },
    'object.copy': async (one) => {
      const bucket = bucketOf(one.parts[0]);
      const body = await json(one, COPY, SMALL_BODY);
      const from = { bucket: body.from_bucket ?? bucket, key: body.from };
      const { etag, modified, size } = await store.copy(one.call, from, { bucket, key: body.to }, {});
      answer(one, { etag, modified, size });
    },
    'object.delete-many': async (one) => {
      const bucket = bucketOf(one.parts[0]);
      const { keys } = await json(one, DELETE_MANY, LARGE_BODY);
      const failed = await store.deleteMany(one.call, bucket, keys);
      answer(one, {
        deleted: keys.filter((key) => !failed.has(key)),
        failed: keys.filter((key) => failed.has(key)),
      });
    },
  };

  function openCursor(owner: readonly string[], text: string | undefined): string | undefined {
    if (text === undefined) return undefined;
    const token = cursors.open(owner, text);
    if (token === undefined) throw new ServiceError('invalid_request', 'cursor');
    return token;
  }

  return {
    serve: async (exchange) => {
      const { request } = exchange;
      const matched = matchRoute(request.method ?? '', exchange.path, (allow) => {
        exchange.common['allow'] = allow;
      });
      exchange.operation = matched.operation;
      if (matched.operation === 'healthz') return writeJson(exchange, 200, '{"status":"ok"}');
      const tenant = await admission.admit(exchange, await tenantOf(request, matched.operation, tenants));
      const headers = receivedHeaders(request.rawHeaders);
      for (const name of headers.keys())
        if (name.startsWith('x-amz-'))
          throw new ServiceError('invalid_request', 'a header of another protocol');
      const call = admission.callOf(exchange, tenant, headers.get(GRANT));
      const query = queryOf(exchange.query, matched.parameters);
      await handlers[matched.operation]({ ...matched, exchange, call, headers, query });
    },
    refuse: (exchange, error) => writeJson(exchange, error.status, errorBody(error.code, exchange.traceId)),
  };

  async function json<Schema extends z.ZodType>(
    { exchange }: Admitted,
    { schema, limits, list }: BodyOf<Schema>,
    limit: number,
  ): Promise<z.output<Schema>> {
    const { request } = exchange;
    checkBodyHead(request, limit);
    const announced = request.headers['content-length'];
    const { done, inTurn } = await admission.document(
      exchange,
      announced === undefined ? limit : Number(announced),
    );
    try {
      const body = await readJsonObject(request, limit, { limits, inTurn });
      return await parseBody({ schema, limits, list }, body, inTurn);
    } finally {
      done();
    }
  }
}

async function tenantOf(
  request: IncomingMessage,
  operation: Operation,
  tenants: Tenants,
): Promise<Tenant | undefined> {
  const token =
    operation === 's3.credentials' ? bareOrBearer(request) : bearerToken(request.rawHeaders, 'osw');
  const tenant = await tenants.byDigest(token === undefined ? NOBODY : digestOf(token));
  return token === undefined ? undefined : tenant;
}

/** The AWS SDKs send what is in the token's file, and nothing before it. */
function bareOrBearer({ rawHeaders }: IncomingMessage): Secret<string> | undefined {
  const bearer = rawHeaders.map((text, i) =>
    i % 2 === 1 && rawHeaders[i - 1]?.toLowerCase() === 'authorization' && isToken(text.trim(), 'osw')
      ? `Bearer ${text.trim()}`
      : text,
  );
  return bearerToken(bearer, 'osw');
}

function refOf({ parts: [bucket, key] }: Admitted) {
  return { bucket: bucketOf(bucket), key: keyOf(key) };
}

function uploadOf({ parts: [bucket, id = ''] }: Admitted): { readonly bucket: Bucket; readonly id: string } {
  return { bucket: bucketOf(bucket), id };
}

function prefixOf(text: string | undefined): KeyPrefix {
  const prefix = parsePrefix(text ?? '');
  if (prefix === undefined) throw new ServiceError('invalid_request', 'not a prefix');
  return prefix;
}

/** The body as a stream whose length is known beforehand; Node's parser holds the caller to it. */
function incomingBody({ headers, exchange: { request }, call }: Admitted): IncomingBody {
  const text = headers.get('content-length');
  if (text === undefined || headers.has('transfer-encoding'))
    throw new ServiceError('length_required', 'no length');
  if (!/^[0-9]{1,16}$/.test(text)) throw new ServiceError('invalid_request', 'length');
  const length = Number(text);
  if (length > MAX_PUT_BYTES) throw new ServiceError('too_large', 'more than one request may bring');
  return { stream: detach(request, call.signal), length };
}

function noBody({ headers }: Admitted): void {
  const length = headers.get('content-length');
  if (headers.has('transfer-encoding') || (length !== undefined && length !== '0'))
    throw new ServiceError('invalid_request', 'a body where none belongs');
}

function answer({ exchange }: Admitted, content: object): void {
  writeJson(exchange, 200, JSON.stringify({ ...content, trace_id: exchange.traceId }));
}
