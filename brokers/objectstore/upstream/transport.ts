import { type Readable, Writable } from 'node:stream';
import type { Dispatcher } from 'undici';
import { CODED_PAYLOAD, coded } from './coded.ts';
import { encode, encodePath } from './encode.ts';
import { fromTransport, S3Error } from './errors.ts';
import { type Head, relay, single } from './relay.ts';
import { createSigner } from './sign.ts';
import { EMPTY_SHA256, sha256 } from './sigv4.ts';
import { routeOf, type Target } from './target.ts';
import { parseXml, textOf } from './xml.ts';

/** A request for the bucket or one of its keys. */
export interface Ask {
  readonly method: 'GET' | 'HEAD' | 'PUT' | 'POST' | 'DELETE';
  /** Physical, not encoded; absent for the bucket itself. */
  readonly key?: string;
  /** Not encoded. */
  readonly query?: Readonly<Record<string, string>>;
  /** Lower-case names. */
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: Buffer | { readonly stream: Readable; readonly length: number };
  readonly signal?: AbortSignal | undefined;
}

export interface Transport {
  readonly bucket: string;
  /** For answers that are small; `limit` is in bytes. Throws S3Error unless the status is 2xx or 304. */
  small(ask: Ask, limit?: number): Promise<Head & { readonly body: Buffer }>;
  /** Sends the body of a 2xx or 304 answer where `into` says, with back-pressure. Throws S3Error otherwise. */
  stream(ask: Ask, into: (head: Head) => Writable): Promise<Head>;
}

/** The largest answer that is read as a whole: a page of 1,000 keys, each 1,024 bytes and escaped. */
const SMALL_LIMIT = 8 * 1024 * 1024;
const ERROR_LIMIT = 16 * 1024;

/** Signs requests for one bucket and sends them through the dispatcher. */
export function createTransport(target: Target, dispatcher: Dispatcher, now: () => Date): Transport {
  const route = routeOf(target);
  const sign = createSigner(target);

  function signed({ method, key, query, headers, body, signal }: Ask): Dispatcher.RequestOptions {
    const path = key === undefined ? route.path || '/' : `${route.path}/${encodePath(key)}`;
    const pairs =
      query === undefined
        ? []
        : Object.entries(query).map(([name, value]) => [encode(name), encode(value)] as const);
    const suffix = pairs.length === 0 ? '' : `?${pairs.map(([name, value]) => `${name}=${value}`).join('&')}`;
    const { payload, sent, about } = payloadOf(body);
    const all = [['host', route.host] as const, ...Object.entries(headers ?? {}), ...about];
    return {
      origin: route.origin,
      method,
      path: `${path}${suffix}`,
      headers: sign({ method, path, query: pairs, headers: all, payload }, now()),
      body: sent,
      ...(signal === undefined ? {} : { signal }),
    };
  }

  /** A kept connection may have been closed under us; what changes nothing is asked once more. */
  async function attempt<T>(ask: Ask, act: () => Promise<T>, begun: () => boolean): Promise<T> {
    const safe = ask.method === 'GET' || ask.method === 'HEAD';
    try {
      return await act();
    } catch (error) {
      const failure = fromTransport(error);
      if (!safe || begun() || !(failure instanceof S3Error) || !isStale(failure)) throw failure;
      return act().catch((again: unknown) => Promise.reject(fromTransport(again)));
    }
  }

  return {
    bucket: target.bucket,
    small: (ask, limit = SMALL_LIMIT) =>
      attempt(
        ask,
        async () => {
          const answer = await dispatcher.request(signed(ask));
          const head = { status: answer.statusCode, headers: single(answer.headers) };
          const body = await readUpTo(answer.body, isSuccess(head.status) ? limit : ERROR_LIMIT);
          if (!isSuccess(head.status)) throw answered(head.status, body);
          return { ...head, body };
        },
        () => false,
      ),
    stream: async (ask, into) => {
      let head: Head | undefined;
      let refused: Collector | undefined;
      await attempt(
        ask,
        () =>
          relay(dispatcher, { request: signed(ask), signal: ask.signal }, (begun) => {
            head = begun;
            if (isSuccess(begun.status)) return into(begun);
            refused = new Collector(ERROR_LIMIT);
            return refused;
          }),
        () => head !== undefined,
      );
      if (head === undefined) throw new S3Error('unreachable', 0, 'Unknown');
      if (refused !== undefined) throw answered(head.status, refused.bytes());
      return head;
    },
  };
}

interface Payload {
  /** What the signature says of the body. */
  readonly payload: string;
  readonly sent: Buffer | Readable | null;
  readonly about: readonly (readonly [name: string, value: string])[];
}

function payloadOf(body: Ask['body']): Payload {
  if (body === undefined) return { payload: EMPTY_SHA256, sent: null, about: [] };
  if (Buffer.isBuffer(body))
    return { payload: sha256(body), sent: body, about: [['content-length', String(body.length)]] };
  const { stream, length, headers } = coded(body.stream, body.length);
  const about = [['content-length', String(length)] as const, ...Object.entries(headers)];
  return { payload: CODED_PAYLOAD, sent: stream, about };
}

/** Throws S3Error when a 200 turns out to be an error, as with copies and completions. One among several results is none. */
export function checkBody(body: Buffer): void {
  if (/^\s*(?:<\?xml[^>]*>\s*)?<Error[\s>]/.test(body.toString('latin1', 0, 512))) throw answered(500, body);
}

function answered(status: number, body: Buffer): S3Error {
  return new S3Error('answered', status, s3Code(body));
}

function s3Code(body: Buffer): string {
  try {
    const code = textOf(parseXml(body, 'Error'), 'Code') ?? '';
    return /^[A-Za-z]{1,64}$/.test(code) ? code : 'Unknown';
  } catch {
    return 'Unknown';
  }
}

/** A condition that says "you have it already" is an answer, not an error. */
const isSuccess = (status: number) => (status >= 200 && status < 300) || status === 304;
const isStale = ({ code }: S3Error) => code === 'UND_ERR_SOCKET' || code === 'ECONNRESET' || code === 'EPIPE';

async function readUpTo(body: Readable, limit: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    // Leaving the loop destroys the body, and with it the connection that still has more.
    if (size > limit) throw new S3Error('answered', 0, 'AnswerTooLarge');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** Keeps the beginning of what is written to it. */
class Collector extends Writable {
  readonly #chunks: Buffer[] = [];
  #room: number;

  constructor(limit: number) {
    super();
    this.#room = limit;
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    if (this.#room > 0) this.#chunks.push(Buffer.from(chunk.subarray(0, this.#room)));
    this.#room -= chunk.length;
    done();
  }

  bytes(): Buffer {
    return Buffer.concat(this.#chunks);
  }
}
