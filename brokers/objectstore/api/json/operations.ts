import * as z from 'zod';
import { MAX_KEYS } from '../../objects/types.ts';
import type { Operation } from './routes.ts';
import { COMPLETE_UPLOAD, COPY, CREATE_UPLOAD, DELETE_MANY } from './schemas.ts';

type Method = 'get' | 'head' | 'put' | 'post' | 'delete';

export interface Described {
  readonly at: `/v1/${string}`;
  readonly method: Method;
  readonly summary: string;
  readonly body?: z.ZodType | 'bytes';
  readonly answer: z.ZodObject | 'bytes' | 'nothing';
  readonly headers?: readonly string[];
  /** Statuses in addition to those that every operation may return. */
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

/** The parameters and answers of each operation in the OpenAPI document. */
export const OPERATIONS: Readonly<Record<Exclude<Operation, 'healthz'>, Described>> = {
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
    headers: ['Range', 'If-Range', ...READ],
    errors: [404, 412, 416],
  },
  'object.head': {
    at: OBJECT,
    method: 'head',
    summary: 'Describe an object',
    answer: 'nothing',
    headers: ['Range', 'If-Range', ...READ],
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
