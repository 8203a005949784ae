import { traceId } from '@space/contracts/fields';
import { bearer, errorAnswers, jsonContent, openApiFrame, schemaOf } from '@space/contracts/openapi';
import * as z from 'zod';
import { BUCKETS } from '../../objects/prefix.ts';
import { MAX_KEYS } from '../../objects/types.ts';
import { type Operation, parametersOf } from './routes.ts';
import { COMPLETE_UPLOAD, COPY, CREATE_UPLOAD, DELETE_MANY, KEY } from './schemas.ts';

type Method = 'get' | 'head' | 'put' | 'post' | 'delete';

interface Described {
  readonly at: `/v1/${string}`;
  readonly method: Method;
  readonly summary: string;
  readonly body?: z.ZodType | 'bytes';
  readonly answer: z.ZodObject | 'bytes' | 'nothing';
  readonly headers?: readonly string[];
  /** Beside those that every operation may answer with. */
  readonly errors: readonly number[];
}

const OBJECT = '/v1/objects/{bucket}/{key}';
const UPLOAD = '/v1/uploads/{bucket}/{upload_id}';
const READ = ['If-Match', 'If-None-Match', 'If-Modified-Since', 'If-Unmodified-Since'];
const STORED = [
  'Content-Disposition',
  'Content-Encoding',
  'Content-Language',
  'Cache-Control',
  'X-Object-Meta-Name',
];

const text = z.string();
const count = z.int().min(0);
const etag = z.object({ etag: text });

const OPERATIONS: Readonly<Record<Exclude<Operation, 'healthz'>, Described>> = {
  'object.put': {
    at: OBJECT,
    method: 'put',
    summary: 'Store a body of known length',
    body: 'bytes',
    answer: etag.extend({ size: count }),
    headers: [...STORED, 'Content-MD5', 'If-Match', 'If-None-Match'],
    errors: [404, 409, 411, 412, 413, 507],
  },
  'object.get': {
    at: OBJECT,
    method: 'get',
    summary: 'Read an object, or one range of it',
    answer: 'bytes',
    headers: ['Range', ...READ],
    errors: [404, 412, 416],
  },
  'object.head': {
    at: OBJECT,
    method: 'head',
    summary: 'Describe an object',
    answer: 'nothing',
    headers: ['Range', ...READ],
    errors: [404, 412, 416],
  },
  'object.delete': {
    at: OBJECT,
    method: 'delete',
    summary: 'Delete what is or is not there',
    answer: z.object({ deleted: text }),
    headers: ['If-Match'],
    errors: [404, 412],
  },
  'object.list': {
    at: '/v1/objects/{bucket}',
    method: 'get',
    summary: 'List objects page by page',
    answer: z.object({
      objects: z.array(z.strictObject({ key: text, modified: text, etag: text, size: count })),
      prefixes: z.array(text),
      cursor: text.optional(),
    }),
    errors: [404],
  },
  'object.copy': {
    at: '/v1/copies/{bucket}',
    method: 'post',
    summary: 'Copy an object, within a bucket or between the two',
    body: COPY.schema,
    answer: etag.extend({ modified: text, size: count }),
    errors: [404, 409, 412, 413, 415, 507],
  },
  'object.delete-many': {
    at: '/v1/deletions/{bucket}',
    method: 'post',
    summary: `Delete up to ${MAX_KEYS} objects`,
    body: DELETE_MANY.schema,
    answer: z.object({ deleted: z.array(text), failed: z.array(text) }),
    errors: [404, 413, 415],
  },
  'upload.create': {
    at: '/v1/uploads/{bucket}',
    method: 'post',
    summary: 'Begin an upload in parts',
    body: CREATE_UPLOAD.schema,
    answer: z.object({ upload_id: text, key: text }),
    errors: [404, 409, 413, 415],
  },
  'upload.part': {
    at: `${UPLOAD}/{number}`,
    method: 'put',
    summary: 'Store a part',
    body: 'bytes',
    answer: etag.extend({ number: count, size: count }),
    headers: ['Content-MD5'],
    errors: [404, 409, 411, 412, 413, 507],
  },
  'upload.parts': {
    at: UPLOAD,
    method: 'get',
    summary: 'List the parts of an upload',
    answer: z.object({
      key: text,
      parts: z.array(z.strictObject({ number: count, modified: text, etag: text, size: count })),
      after: count.optional(),
    }),
    errors: [404],
  },
  'upload.complete': {
    at: `${UPLOAD}/complete`,
    method: 'post',
    summary: 'Make the object of its parts',
    body: COMPLETE_UPLOAD.schema,
    answer: etag.extend({ key: text }),
    errors: [404, 409, 412, 413, 415],
  },
  'upload.abort': {
    at: UPLOAD,
    method: 'delete',
    summary: 'Give an upload up',
    answer: z.object({ aborted: text }),
    errors: [404],
  },
  'quota.usage': {
    at: '/v1/usage',
    method: 'get',
    summary: "What counts against the Capsule's quota",
    answer: z.object({ used_bytes: count, quota_bytes: count, open_uploads: count }),
    errors: [],
  },
  's3.credentials': {
    at: '/v1/s3/credentials',
    method: 'get',
    summary: 'Keys for S3 clients, good for this listener alone',
    answer: z.object({ AccessKeyId: text, SecretAccessKey: text, Token: text, Expiration: text }),
    errors: [],
  },
};

const EVERYWHERE = [400, 403, 429, 500, 502, 503, 504];

const MEANINGS: Readonly<Record<number, string>> = {
  403: 'The one refusal: no workload principal, or no grant where one is needed.',
  404: 'Nothing of that name is there, or nothing that this Assistant may see.',
  409: 'An object of that name excludes it, or another request was faster, or the grant is not the current one.',
  411: 'A body needs a Content-Length.',
  412: 'A condition does not hold.',
  413: 'The body is more than one request may bring.',
  416: 'The object has no such bytes.',
  502: 'The S3 server failed.',
  504: 'The S3 server did not answer in time.',
  507: "The Capsule's quota is full.",
};

/** What stands in braces in a path. */
const PATH: Readonly<Record<string, object>> = {
  bucket: { type: 'string', enum: BUCKETS },
  key: { ...KEY, description: 'Slashes stand unescaped, every other byte may be escaped.' },
  upload_id: { type: 'string', pattern: '^[0-9a-f]{32}$' },
  number: { type: 'integer', minimum: 1, maximum: 10_000 },
};

const QUERY: Readonly<Record<string, object>> = {
  prefix: { type: 'string', maxLength: 900 },
  delimiter: { const: '/' },
  cursor: { type: 'string', minLength: 1 },
  limit: { type: 'integer', minimum: 1, maximum: MAX_KEYS },
  after: { type: 'integer', minimum: 0, maximum: 10_000 },
};

const HEADERS: Readonly<Record<string, object>> = {
  Range: { type: 'string', pattern: '^bytes=([0-9]{1,18}-[0-9]{0,18}|-[0-9]{1,18})$' },
};
/** What all other operations may answer. */
const HEADER = { type: 'string', pattern: '^[\\x20-\\x7e]{0,1024}$' };

/** OpenAPI 3.1 of the object routes, made from what parses their requests. */
export function dataDocument(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const [name, one] of Object.entries(OPERATIONS)) {
    paths[one.at] = { ...paths[one.at], [one.method]: operationOf(name as keyof typeof OPERATIONS, one) };
  }
  return openApiFrame('Objects of an Assistant', paths, {
    workload: bearer('The workload principal, spc_osw_…'),
  });
}

function operationOf(
  name: Operation,
  { at, summary, body, answer, headers = [], errors }: Described,
): object {
  const inPath = [...at.matchAll(/\{(\w+)\}/g)].map(([, part = '']) => ({
    name: part,
    in: 'path',
    required: true,
    schema: PATH[part],
  }));
  const inQuery = parametersOf(name).map((part) => ({ name: part, in: 'query', schema: QUERY[part] }));
  const inHeader = headers.map((part) => ({ name: part, in: 'header', schema: HEADERS[part] ?? HEADER }));
  const answers = errorAnswers([...EVERYWHERE, ...errors], MEANINGS);
  return {
    operationId: name,
    summary,
    security: [{ workload: [] }],
    parameters: [...inPath, ...inQuery, ...inHeader],
    ...(body === undefined ? {} : { requestBody: { required: true, content: contentOf(body) } }),
    responses: { ...doneOf(answer), ...(answer === 'nothing' ? withoutContent(answers) : answers) },
  };
}

function contentOf(body: z.ZodType | 'bytes'): object {
  if (body === 'bytes')
    return { 'application/octet-stream': { schema: { type: 'string', format: 'binary' } } };
  return jsonContent(schemaOf(body, 'input'));
}

function doneOf(answer: Described['answer']): object {
  if (typeof answer !== 'string') {
    const schema = schemaOf(z.strictObject({ ...answer.shape, trace_id: traceId }));
    return { '200': { description: 'Done.', content: jsonContent(schema) } };
  }
  const content =
    answer === 'bytes' ? { content: { '*/*': { schema: { type: 'string', format: 'binary' } } } } : {};
  return {
    '200': { description: 'The object.', ...content },
    '206': { description: 'The range of it.', ...content },
    '304': { description: 'It is what the condition says.' },
  };
}

function withoutContent(answers: Readonly<Record<string, object>>): object {
  return Object.fromEntries(
    Object.entries(answers).map(([status, { content: _, ...rest }]: [string, { content?: object }]) => [
      status,
      rest,
    ]),
  );
}
