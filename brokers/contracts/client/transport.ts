import { randomBytes } from 'node:crypto';
import { request } from 'undici';
import { connecting, type Trust } from './trust.ts';

export interface TransportOptions {
  /** Without it, the system's authorities are trusted, or plain HTTP is used. */
  readonly trust?: Trust | undefined;
  readonly connectMs?: number;
  /** Called for each call that has ended, whether it succeeded or not. */
  readonly onCall?: ((operation: string, code: string, tookMs: number) => void) | undefined;
}

/** One request; without a body it is a GET. */
export interface Sending {
  readonly operation: string;
  readonly url: string;
  readonly token?: Token;
  readonly body?: unknown;
  /** The most bytes of an answer. */
  readonly longest: number;
  readonly timeoutMs: number;
  /** Aborts the call before its deadline. */
  readonly signal?: AbortSignal;
}

/** A secret that has to be revealed explicitly. */
export interface Token {
  reveal(): string;
}

export interface Answer {
  readonly status: number;
  readonly body: Buffer;
}

const CONNECT_MS = 10_000;

/**
 * The transport of every client: one attempt with a deadline and a trace id. The caller decides about further attempts.
 */
export function createTransport(options: TransportOptions): (sending: Sending) => Promise<Answer> {
  const { trust, connectMs = CONNECT_MS, onCall } = options;
  const connection = connecting(trust, connectMs);
  return async (sending) => {
    const { operation, url, token, body, longest, timeoutMs } = sending;
    const started = performance.now();
    let code = '<error>';
    // An `AbortSignal.timeout` would live until its time is over, which adds up over thousands of short calls.
    const late = new AbortController();
    const timer = setTimeout(
      () => late.abort(new DOMException(`not done in ${timeoutMs} ms`, 'TimeoutError')),
      timeoutMs,
    );
    try {
      const answer = await request(url, {
        dispatcher: await connection(),
        method: body === undefined ? 'GET' : 'POST',
        headers: {
          accept: 'application/json',
          traceparent: `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01`,
          ...(token ? { authorization: `Bearer ${token.reveal()}` } : {}),
          ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        body: body === undefined ? null : JSON.stringify(body),
        signal: sending.signal ? AbortSignal.any([sending.signal, late.signal]) : late.signal,
        headersTimeout: timeoutMs,
        bodyTimeout: timeoutMs,
      });
      code = String(answer.statusCode);
      return { status: answer.statusCode, body: await limited(answer.body, longest) };
    } finally {
      clearTimeout(timer);
      onCall?.(operation, code, performance.now() - started);
    }
  };
}

async function limited(body: AsyncIterable<Buffer>, longest: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > longest) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}
