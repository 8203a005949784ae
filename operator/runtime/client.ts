import { type Dispatcher, errors } from 'undici';
import { asYaml } from './as-yaml.ts';
import type { Connection } from './connection.ts';
import { withDeadline } from './deadline.ts';
import { ApiError, ReadRefusedError, SilenceError, TransportError } from './errors.ts';

type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';

export interface ApiRequest {
  readonly method: Method;
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly signal?: AbortSignal | undefined;
  readonly timeoutMs?: number;
  /** Called immediately before sending. If it throws, nothing is sent and the caller gets the error. */
  readonly beforeSend?: () => void;
  /** Called with the server's time of its answer, in milliseconds since 1970, if it said one. */
  readonly onServerTime?: (ms: number) => void;
}

/** The client of the API server. */
export interface ApiClient {
  /** One call with a deadline. @throws ApiError for any status but 2xx, TransportError without an answer */
  call<T>(request: ApiRequest): Promise<T>;
  /** The lines of a watch. After `inactivityMs` without a byte it ends with a `SilenceError`. */
  lines(request: ApiRequest & { readonly inactivityMs: number }): Promise<AsyncIterable<string>>;
}

/** Called for every answer; `code` is the status, or `<error>` without an answer. */
export type Observe = (method: Method, code: string, path: string) => void;

/** The content type of a server-side apply. */
export const APPLY = 'application/apply-patch+yaml';

const DEFAULT_TIMEOUT_MS = 15_000;
const HEADERS_TIMEOUT_MS = 15_000;
/** What is before a server may say an hour for a maintenance of minutes, and a timer of more than 24 days rings at once. */
const LONGEST_RETRY_AFTER_MS = 30_000;

export function apiClient(connection: Connection, observe: Observe = () => {}): ApiClient {
  async function send(asked: ApiRequest, signal: AbortSignal | undefined, bodyTimeout: number) {
    const { dispatcher, headers } = await connection.prepare();
    const url = new URL(connection.server + asked.path);
    for (const [name, value] of Object.entries(asked.query ?? {})) url.searchParams.set(name, value);
    const options: Dispatcher.RequestOptions = {
      origin: url.origin,
      path: url.pathname + url.search,
      method: asked.method,
      headers: {
        ...headers,
        accept: 'application/json',
        ...(asked.body === undefined ? {} : { 'content-type': asked.contentType ?? 'application/json' }),
      },
      body: bodyOf(asked),
      headersTimeout: Math.min(HEADERS_TIMEOUT_MS, bodyTimeout),
      bodyTimeout,
      ...(signal ? { signal } : {}),
    };
    asked.beforeSend?.();
    try {
      const answer = await dispatcher.request(options);
      observe(asked.method, String(answer.statusCode), asked.path);
      tellServerTime(asked, answer.headers['date']);
      return answer;
    } catch (cause) {
      observe(asked.method, '<error>', asked.path);
      throw new TransportError(`${asked.method} ${asked.path} got no answer`, { cause });
    }
  }

  return {
    async call<T>(asked: ApiRequest): Promise<T> {
      const timeoutMs = asked.timeoutMs ?? DEFAULT_TIMEOUT_MS;
      const { answer, text } = await withDeadline(timeoutMs, [asked.signal], async (signal) => {
        const answer = await send(asked, signal, timeoutMs);
        return { answer, text: await bodyText(answer.body, asked) };
      });
      if (answer.statusCode >= 300) throw apiError(asked, answer, text);
      try {
        return JSON.parse(text) as T;
      } catch (cause) {
        throw new TransportError(`${asked.method} ${asked.path} answered something that is not JSON`, {
          cause,
        });
      }
    },

    async lines(asked) {
      const answer = await send(asked, asked.signal, asked.inactivityMs);
      if (answer.statusCode >= 300) throw apiError(asked, answer, await bodyText(answer.body, asked));
      return splitLines(answer.body, asked);
    },
  };
}

/** The header has no fractions of a second, so the server's time may be as much later. */
function tellServerTime({ onServerTime }: ApiRequest, date: string | string[] | undefined): void {
  const ms = Date.parse(String(date)) + 999;
  if (!Number.isNaN(ms)) onServerTime?.(ms);
}

function bodyOf({ body, contentType }: ApiRequest): string | null {
  if (body === undefined) return null;
  return contentType === APPLY ? asYaml(body) : JSON.stringify(body);
}

async function bodyText(body: Dispatcher.ResponseData['body'], asked: ApiRequest): Promise<string> {
  try {
    return await body.text();
  } catch (cause) {
    throw new TransportError(`${asked.method} ${asked.path}: the answer broke off`, { cause });
  }
}

async function* splitLines(body: AsyncIterable<Buffer>, asked: ApiRequest): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  try {
    for await (const chunk of body) {
      const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = parts.pop() ?? '';
      yield* parts.filter((line) => line !== '');
    }
  } catch (cause) {
    if (cause instanceof errors.BodyTimeoutError)
      throw new SilenceError(`${asked.method} ${asked.path}: the stream sent nothing for too long`, {
        cause,
      });
    throw new TransportError(`${asked.method} ${asked.path}: the stream broke off`, { cause });
  }
  // A rest without a newline is an incomplete event, which the next watch delivers again.
  if (rest !== '') throw new TransportError(`${asked.method} ${asked.path}: the stream ended inside a line`);
}

function apiError(asked: ApiRequest, answer: Dispatcher.ResponseData, text: string): ApiError {
  let status: { message?: string; reason?: string } = {};
  try {
    status = JSON.parse(text) as typeof status;
  } catch {
    // A proxy may have answered with another content type; then only the status code counts.
  }
  const retryAfter = Number(answer.headers['retry-after']);
  const Failure = asked.method === 'GET' && answer.statusCode === 403 ? ReadRefusedError : ApiError;
  return new Failure({
    status: answer.statusCode,
    reason: status.reason ?? '',
    message: `${asked.method} ${asked.path}: ${answer.statusCode} ${status.message ?? 'without a status object'}`,
    ...(status.message === undefined ? {} : { said: status.message }),
    retryAfterMs: retryAfter > 0 ? Math.min(retryAfter * 1000, LONGEST_RETRY_AFTER_MS) : undefined,
  });
}
