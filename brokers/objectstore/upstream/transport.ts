import type { Readable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { CODED_PAYLOAD, encodeChunked } from './aws-chunked-encoder.ts';
import { fromTransport, S3Error } from './errors.ts';
import { type Head, type Passing, type Patience, relay, type Sends, type SinkFor } from './relay.ts';
import { createSigner, EMPTY_SHA256, encode, encodePath, sha256 } from './sigv4.ts';
import { Collector, DocumentSink, type InTurn, plainCode } from './sinks.ts';
import { routeOf, type Target } from './target.ts';
import { parseXml, textOf, type XmlNode, type XmlShape } from './xml.ts';

/** A request for the bucket or one of its keys. */
export interface Ask {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** The physical key, not encoded; absent for the bucket itself. */
  readonly key?: string;
  /** Not encoded. */
  readonly query?: Readonly<Record<string, string>>;
  /** Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
  /** Set if the headers are stored with an object. */
  readonly stores?: true;
  readonly body?: Buffer | { readonly stream: Readable; readonly length: number };
  readonly signal?: AbortSignal | undefined;
  readonly patience?: Patience;
  /** Passes the body of a long answer on in turns. */
  readonly passing?: Passing | undefined;
}

/** The expected document of an answer. */
interface Expected {
  readonly shape: XmlShape;
  /** In bytes. */
  readonly limit: number;
  readonly inTurn: InTurn;
}

export interface Transport {
  readonly bucket: string;
  /** Requests a small answer of at most `limit` bytes. Throws S3Error unless the status is 2xx or 304. */
  small(ask: Ask, limit?: number): Promise<Head & { readonly body: Buffer }>;
  /** Requests a document, parsed while it arrives. Throws S3Error for any status but 2xx, and for an error document. */
  document(ask: Ask, expected: Expected): Promise<XmlNode>;
  /** Sends the body of a 2xx or 304 answer to the sink with back-pressure. Throws S3Error for other statuses. */
  stream(ask: Ask, sinkFor: SinkFor): Promise<Head>;
}

/** The most bytes of an answer whose body is not needed. */
const SMALL_LIMIT = 64 * 1024;
const ERROR_LIMIT = 16 * 1024;

/** The most bytes of a request's head. */
export interface HeadLimits {
  readonly any: number;
  /** Of one whose headers are stored with an object. */
  readonly storing: number;
}

/**
 * S3 servers take 8 KiB. A restore stores an object by another request than it was stored by, maybe in a bucket with a longer
 * name, and needs room for that.
 */
const HEAD_LIMITS: HeadLimits = { any: 8_000, storing: 7_400 };

/** Signs requests for one bucket and sends them through the dispatcher. */
export function createTransport(
  target: Target,
  dispatcher: Sends,
  now: () => Date,
  limits = HEAD_LIMITS,
): Transport {
  const signed = signing(target, now, limits);

  /**
   * Sends the body of a 2xx or 304 answer to the sink, and throws every other answer. With `restarts`, each call of
   * `sinkFor` starts with a fresh sink, so that the request may be repeated after an answer has begun.
   */
  async function send(ask: Ask, sinkFor: SinkFor, { restarts = false } = {}): Promise<Head> {
    const { signal, patience, passing } = ask;
    let head: Head | undefined;
    let refused: Collector | undefined;
    const act = () => {
      head = undefined;
      refused = undefined;
      return relay(
        dispatcher,
        { request: signed(ask), signal, passing, ...(patience ? { patience } : {}) },
        (begun) => {
          head = begun;
          if (isSuccess(begun.status)) return sinkFor(begun);
          refused = new Collector(ERROR_LIMIT);
          return refused;
        },
      ).catch((error: unknown) => {
        // An error without end is as good as its beginning, and nobody else reads it.
        if (refused?.isCut !== true) throw error;
      });
    };
    await attempt(ask, act, () => head !== undefined && !restarts);
    if (head === undefined) throw new S3Error('unreachable', 0, 'Unknown');
    if (refused !== undefined) throw answered(head.status, refused.bytes());
    return head;
  }

  return {
    bucket: target.bucket,
    small: async (ask, limit = SMALL_LIMIT) => {
      let body = new Collector(limit);
      const head = await send(
        ask,
        () => {
          body = new Collector(limit);
          return body;
        },
        { restarts: true },
      );
      return { ...head, body: body.bytes() };
    },
    document: async (ask, { shape, limit, inTurn }) => {
      let sink: DocumentSink | undefined;
      await send(
        ask,
        () => {
          sink = new DocumentSink(shape, limit, inTurn);
          return sink;
        },
        { restarts: true },
      );
      if (sink === undefined) throw new S3Error('unreachable', 0, 'Unknown');
      return sink.document();
    },
    stream: (ask, sinkFor) => send(ask, sinkFor),
  };
}

/** A kept connection may have been closed by the server, so a request that changes nothing is repeated once. */
async function attempt(ask: Ask, act: () => Promise<void>, begun: () => boolean): Promise<void> {
  const safe = ask.method === 'GET' || ask.method === 'HEAD';
  try {
    await act();
  } catch (error) {
    const failure = fromTransport(error);
    if (!safe || begun() || !(failure instanceof S3Error) || !isStale(failure)) throw failure;
    await act().catch((again: unknown) => Promise.reject(fromTransport(again)));
  }
}

function signing(
  target: Target,
  now: () => Date,
  limits: HeadLimits,
): (ask: Ask) => Dispatcher.RequestOptions {
  const route = routeOf(target);
  const sign = createSigner(target);
  return ({ method, key, query, headers, body, signal, stores }) => {
    const path = key === undefined ? route.path || '/' : `${route.path}/${encodePath(key)}`;
    const pairs =
      query === undefined
        ? []
        : Object.entries(query).map(([name, value]) => [encode(name), encode(value)] as const);
    const suffix = pairs.length === 0 ? '' : `?${pairs.map(([name, value]) => `${name}=${value}`).join('&')}`;
    const { payload, sent, about } = payloadOf(body);
    const all = [['host', route.host] as const, ...Object.entries(headers ?? {}), ...about];
    const complete = sign({ method, path, query: pairs, headers: all, payload }, now());
    requireHead(method, `${path}${suffix}`, complete, stores ? limits.storing : limits.any);
    return {
      origin: route.origin,
      method,
      path: `${path}${suffix}`,
      headers: complete,
      body: sent,
      ...(signal === undefined ? {} : { signal }),
    };
  };
}

/**
 * Refuses a head that the server would not take, or would store and no answer could contain: everything that is stored with an
 * object is in the head of one request.
 */
function requireHead(
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  most: number,
): void {
  let bytes = `${method} ${path} HTTP/1.1\r\n\r\n`.length;
  for (const [name, value] of Object.entries(headers)) bytes += `${name}: ${value}\r\n`.length;
  if (bytes > most) throw new S3Error('answered', 400, 'RequestHeaderSectionTooLarge');
}

interface Payload {
  /** What the signature says about the body. */
  readonly payload: string;
  readonly sent: Buffer | Readable | null;
  readonly about: readonly (readonly [name: string, value: string])[];
}

function payloadOf(body: Ask['body']): Payload {
  if (body === undefined) return { payload: EMPTY_SHA256, sent: null, about: [] };
  if (Buffer.isBuffer(body))
    return { payload: sha256(body), sent: body, about: [['content-length', String(body.length)]] };
  const { stream, length, headers } = encodeChunked(body.stream, body.length);
  const about = [['content-length', String(length)] as const, ...Object.entries(headers)];
  return { payload: CODED_PAYLOAD, sent: stream, about };
}

function answered(status: number, body: Buffer): S3Error {
  return new S3Error('answered', status, s3Code(body));
}

function s3Code(body: Buffer): string {
  try {
    return plainCode(textOf(parseXml(body, ERROR), 'Code'));
  } catch {
    return 'Unknown';
  }
}

const ERROR: XmlShape = { root: 'Error', items: [], most: 0, answer: true };

/** A 304 is an answer and not an error. */
const isSuccess = (status: number) => (status >= 200 && status < 300) || status === 304;
const isStale = ({ code }: S3Error) => code === 'UND_ERR_SOCKET' || code === 'ECONNRESET' || code === 'EPIPE';
