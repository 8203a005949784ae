import { subscribe } from 'node:diagnostics_channel';
import type { Secret } from '@space/broker-kit';
import { Agent, type Dispatcher, request } from 'undici';
import { type Authority, connectorBy } from '../authority.ts';

/** A request to the API server. */
export interface Ask {
  readonly method?: 'GET' | 'POST' | 'PATCH' | 'PUT' | 'DELETE';
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly accept?: string;
}

/** The person who asks: the owner of the token, or the person whom the console impersonates. */
export interface Caller {
  readonly token: Secret<string>;
  readonly person?: Person;
}

/** A person whom an issuer named, as the API server knows them. */
export interface Person {
  readonly user: string;
  readonly groups: readonly string[];
}

/** The API server for a given person: there is no request without a caller. */
export interface Kubernetes {
  ask(caller: Caller, ask: Ask): Promise<unknown>;
  /**
   * The events of a watch, until the API server or `signal` ends it; rejects if the API server refuses. Once it has
   * resolved, nothing refers to the token any more, since a watch lasts for minutes.
   */
  follow(caller: Caller, ask: Ask, signal: AbortSignal): Promise<AsyncIterable<unknown>>;
  close(): Promise<void>;
}

/** The API server refused, or did not answer. Its message is shown only to the person who asked, and never logged. */
export class KubernetesError extends Error {
  override readonly name = 'KubernetesError';
  /** 0 without an answer. */
  readonly status: number;
  readonly reason: string;
  readonly sentence: string;
  /** For the log: after an answer, the reason may be anybody's text. */
  readonly code: string;

  constructor(status: number, reason: string, sentence: string, options: { readonly cause?: unknown } = {}) {
    super(`the API server answered ${status} ${reason}`, 'cause' in options ? { cause: options.cause } : {});
    this.status = status;
    this.reason = reason;
    this.sentence = sentence;
    this.code = status === 0 ? reason : `HTTP_${status}`;
  }
}

/** Undefined where the person may not read it. */
export async function ifAllowed<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof KubernetesError && error.status === 403) return undefined;
    throw error;
  }
}

export interface KubernetesOptions {
  readonly url: string;
  /** The CA of the API server. */
  readonly authority: Authority | undefined;
  readonly timeoutMs?: number | undefined;
}

const CALL_MS = 10_000;
const MOST_BYTES = 32 * 1024 * 1024;

/**
 * undici keeps a request with its headers until the answer has ended. Nobody needs the token once the answer has begun;
 * until then, a request that the server did not accept may be sent again.
 */
subscribe('undici:request:headers', (message) => {
  const { headers } = (message as { request: { headers: unknown } }).request;
  if (!Array.isArray(headers)) return;
  for (let at = 0; at < headers.length; at += 2)
    if (String(headers[at]).toLowerCase() === 'authorization') headers[at + 1] = '';
});

export function kubernetes({ url, authority, timeoutMs = CALL_MS }: KubernetesOptions): Kubernetes {
  const keepAliveTimeout = 30_000;
  const shared = new Agent({ connect: connectorBy(authority), keepAliveTimeout });
  // With HTTP/2, Node itself keeps the request for as long as the answer lasts, and undici joins the headers of several
  // groups to one, which is the name of no group.
  const allowH2 = false;
  const single = new Agent({ connect: connectorBy(authority, { allowH2 }), allowH2, keepAliveTimeout });
  return {
    async ask(caller, ask) {
      const signal = AbortSignal.timeout(timeoutMs);
      const dispatcher = caller.person === undefined ? shared : single;
      const { status, body } = await send(dispatcher, url, caller, ask, signal);
      const json = parse(await textOf(body));
      if (status >= 300) throw refusal(status, json);
      if (json !== undefined) return json;
      throw new KubernetesError(0, 'Unreadable', 'its answer is not JSON');
    },
    async follow(caller, ask, signal) {
      const { status, body } = await send(single, url, caller, ask, signal);
      if (status >= 300) throw refusal(status, parse(await textOf(body)));
      return eventsOf(body);
    },
    close: async () => {
      await Promise.all([shared.destroy(), single.destroy()]);
    },
  };
}

function refusal(status: number, answer: unknown): KubernetesError {
  const { reason, message } = (answer ?? {}) as { reason?: unknown; message?: unknown };
  return new KubernetesError(
    status,
    typeof reason === 'string' ? reason : 'Unknown',
    typeof message === 'string' ? message : '',
  );
}

async function send(
  dispatcher: Dispatcher,
  url: string,
  { token, person }: Caller,
  { method = 'GET', path, query = {}, body, contentType = 'application/json', accept }: Ask,
  signal: AbortSignal,
): Promise<{ status: number; body: AsyncIterable<Buffer> }> {
  const search = new URLSearchParams(query).toString();
  try {
    const answer = await request(`${url}${path}${search === '' ? '' : `?${search}`}`, {
      dispatcher,
      method,
      headers: {
        authorization: `Bearer ${token.reveal()}`,
        accept: accept ?? 'application/json',
        ...(body === undefined ? {} : { 'content-type': contentType }),
        ...(person === undefined ? {} : impersonation(person)),
      },
      body: body === undefined ? null : JSON.stringify(body),
      signal,
    });
    return { status: answer.statusCode, body: answer.body };
  } catch (cause) {
    throw unreachable(cause);
  }
}

const unreachable = (cause: unknown) => new KubernetesError(0, 'Unreachable', 'it did not answer', { cause });

async function textOf(body: AsyncIterable<Buffer>): Promise<string> {
  try {
    return await limited(body);
  } catch (cause) {
    throw unreachable(cause);
  }
}

/** One JSON document per line. */
async function* eventsOf(body: AsyncIterable<Buffer>): AsyncGenerator<unknown> {
  let rest = '';
  const decoder = new TextDecoder();
  try {
    for await (const chunk of body) {
      const lines = (rest + decoder.decode(chunk, { stream: true })).split('\n');
      rest = lines.pop() ?? '';
      if (rest.length > MOST_BYTES) throw new Error('an event is too long');
      for (const line of lines) yield parse(line);
    }
  } catch (cause) {
    throw unreachable(cause);
  }
}

const impersonation = ({ user, groups }: Person) => ({
  'impersonate-user': user,
  ...(groups.length === 0 ? {} : { 'impersonate-group': [...groups] }),
});

async function limited(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > MOST_BYTES) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks).toString('utf8');
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A path of the API, in which each name is one segment. The names come from addresses that somebody typed. */
export function apiPath(strings: TemplateStringsArray, ...names: readonly string[]): string {
  const pieces = names.map((name) => {
    if (!/^[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?$/.test(name))
      throw new KubernetesError(404, 'NotFound', 'no object has such a name');
    return name;
  });
  return strings.reduce((path, piece, index) => `${path}${pieces[index - 1] ?? ''}${piece}`);
}
