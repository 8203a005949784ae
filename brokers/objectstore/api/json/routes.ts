import { ServiceError } from '@space/broker-kit';
import {
  type Bucket,
  decodePath,
  decodeQueryValue,
  isBucket,
  type ObjectKey,
  parseKey,
} from '../../objects/object-key.ts';

/** The operation of a request, which method and path determine. */
export type Operation =
  | 'object.put'
  | 'object.get'
  | 'object.head'
  | 'object.delete'
  | 'object.list'
  | 'upload.create'
  | 'upload.part'
  | 'upload.parts'
  | 'upload.complete'
  | 'upload.abort'
  | 'object.copy'
  | 'object.delete-many'
  | 's3.credentials'
  | 'quota.usage'
  | 'healthz';

/** A pattern of paths, with its methods and the query parameters of each. */
interface Route {
  readonly shape: RegExp;
  readonly methods: Readonly<Record<string, readonly [operation: Operation, ...query: string[]]>>;
}

const ROUTES: readonly Route[] = [
  { shape: /^\/healthz$/, methods: { GET: ['healthz'] } },
  { shape: /^\/v1\/s3\/credentials$/, methods: { GET: ['s3.credentials'] } },
  { shape: /^\/v1\/usage$/, methods: { GET: ['quota.usage'] } },
  {
    shape: /^\/v1\/objects\/([^/]*)\/(.*)$/s,
    methods: {
      PUT: ['object.put'],
      GET: ['object.get'],
      HEAD: ['object.head'],
      DELETE: ['object.delete'],
    },
  },
  {
    shape: /^\/v1\/objects\/([^/]*)$/,
    methods: { GET: ['object.list', 'prefix', 'delimiter', 'cursor', 'limit'] },
  },
  { shape: /^\/v1\/uploads\/([^/]*)$/, methods: { POST: ['upload.create'] } },
  {
    shape: /^\/v1\/uploads\/([^/]*)\/([^/]*)$/,
    methods: { GET: ['upload.parts', 'after', 'limit'], DELETE: ['upload.abort'] },
  },
  { shape: /^\/v1\/uploads\/([^/]*)\/([^/]*)\/complete$/, methods: { POST: ['upload.complete'] } },
  { shape: /^\/v1\/uploads\/([^/]*)\/([^/]*)\/([0-9]{1,5})$/, methods: { PUT: ['upload.part'] } },
  { shape: /^\/v1\/copies\/([^/]*)$/, methods: { POST: ['object.copy'] } },
  { shape: /^\/v1\/deletions\/([^/]*)$/, methods: { POST: ['object.delete-many'] } },
];

export interface Matched {
  readonly operation: Operation;
  /** The variable parts of the path, not decoded. */
  readonly parts: readonly string[];
  readonly parameters: readonly string[];
}

/** The query parameters that an operation knows. */
export function parametersOf(name: Operation): readonly string[] {
  const all = ROUTES.flatMap(({ methods }) => Object.values(methods));
  return all.find(([operation]) => operation === name)?.slice(1) ?? [];
}

/** @throws ServiceError `not_found`, or `method_not_allowed` after a call of `allow` with the allowed methods */
export function matchRoute(method: string, path: string, allow: (methods: string) => void): Matched {
  for (const { shape, methods } of ROUTES) {
    const found = shape.exec(path);
    if (found === null) continue;
    const known = Object.hasOwn(methods, method) ? methods[method] : undefined;
    if (known === undefined) {
      allow(Object.keys(methods).join(', '));
      throw new ServiceError('method_not_allowed', 'no such method');
    }
    const [operation, ...parameters] = known;
    return { operation, parts: found.slice(1), parameters };
  }
  throw new ServiceError('not_found', 'no such route');
}

/** The bucket in a path. There are two; any other name is answered as not found. */
export function bucketOf(raw: string | undefined): Bucket {
  if (raw === undefined || !isBucket(raw)) throw new ServiceError('not_found', 'no such bucket');
  return raw;
}

export function keyOf(raw: string | undefined): ObjectKey {
  const text = decodePath(raw ?? '');
  const key = text === undefined ? undefined : parseKey(text);
  if (key === undefined) throw new ServiceError('invalid_request', 'not a key');
  return key;
}

/**
 * The query's parameters, each in the list and at most once. Names are not decoded, so none can be hidden by an escape.
 */
export function queryOf(query: string | undefined, known: readonly string[]): ReadonlyMap<string, string> {
  const values = new Map<string, string>();
  if (query === undefined) return values;
  for (const pair of query.split('&')) {
    const [, name = '', raw = ''] = /^([^=]*)=(.*)$/s.exec(pair) ?? [];
    const value = decodeQueryValue(raw);
    if (!known.includes(name) || values.has(name) || value === undefined)
      throw new ServiceError('invalid_request', 'query parameter');
    values.set(name, value);
  }
  return values;
}
