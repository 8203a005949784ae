import { randomBytes } from 'node:crypto';
import { request } from 'undici';
import { z } from 'zod';
import { withDeadline } from '../runtime/deadline.ts';
import type { Secret } from '../secret.ts';
import { isUntrusted, trusting } from './trust.ts';

export type BrokerFailure = 'unreachable' | 'untrusted' | 'not-ours' | 'refused';

/** Which broker, as people and as its Deployment call it. */
export interface BrokerName {
  readonly name: string;
  readonly deployment: string;
}

/** Why a broker did not do what it was asked. `code` is the broker's own, from its closed list. */
export class BrokerError extends Error {
  override readonly name = 'BrokerError';
  readonly broker: BrokerName;
  readonly failure: BrokerFailure;
  readonly status: number | undefined;
  readonly code: string | undefined;

  constructor(
    broker: BrokerName,
    failure: BrokerFailure,
    message: string,
    options: { readonly status?: number; readonly code?: string; readonly cause?: unknown } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : {});
    this.broker = broker;
    this.failure = failure;
    this.status = options.status;
    this.code = options.code;
  }
}

export interface BrokerOptions {
  readonly broker: BrokerName;
  readonly url: string;
  /** Its discovery document, as it is built in. */
  readonly driver: Buffer;
  /** The only authority whose certificates are believed; with it, plain HTTP is refused. */
  readonly readCa?: (() => Promise<string>) | undefined;
  readonly onCall?: (operation: string, code: string, tookMs: number) => void;
}

/** A call of one operation. */
export interface Call<T> {
  readonly operation: string;
  readonly path: string;
  readonly token: Secret;
  readonly body: unknown;
  /** The form of the answer. */
  readonly answer: z.ZodType<T>;
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

const Refusal = z.object({
  error: z.object({ code: z.string().regex(/^[a-z_]{1,40}$/) }),
  trace_id: z.string(),
});

const CALL_MS = 15_000;
/** What was asked for goes beyond a quota: trying again is no use by itself. */
const NO_ROOM = 507;
/** A broker that was ours is believed for so long: a burst of Assistants asks once. */
const IDENTIFIED_MS = 5_000;
const LONGEST_ANSWER = 64 * 1024;

/**
 * The way to one broker. A call is made once; the work queue tries again. No token is sent before the broker's
 * discovery document was seen to be, byte for byte, the one built in.
 */
export function brokerClient(options: BrokerOptions): <T>(call: Call<T>) => Promise<T> {
  const { broker, url, driver, onCall = () => {} } = options;
  const { name } = broker;
  if (options.readCa && new URL(url).protocol !== 'https:')
    throw new Error(`the ${name} is asked by https where an authority is configured`);
  const dispatcher = options.readCa && trusting(options.readCa);
  let seenOurs = Number.NEGATIVE_INFINITY;

  async function send(
    operation: string,
    path: string,
    init: SendOptions,
  ): Promise<{ status: number; body: Buffer }> {
    const started = performance.now();
    let code = '<error>';
    try {
      const connection = dispatcher && (await dispatcher());
      const { answer, body } = await withDeadline(init.timeoutMs, [init.signal], async (signal) => {
        const answer = await request(url.replace(/\/$/, '') + path, {
          ...(connection ? { dispatcher: connection } : {}),
          method: init.body === undefined ? 'GET' : 'POST',
          headers: {
            accept: 'application/json',
            traceparent: `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01`,
            ...(init.token ? { authorization: `Bearer ${init.token.reveal()}` } : {}),
            ...(init.body === undefined ? {} : { 'content-type': 'application/json' }),
          },
          body: init.body === undefined ? null : JSON.stringify(init.body),
          signal,
          headersTimeout: init.timeoutMs,
          bodyTimeout: init.timeoutMs,
        });
        return { answer, body: await limited(answer.body) };
      });
      code = String(answer.statusCode);
      return { status: answer.statusCode, body };
    } catch (cause) {
      seenOurs = Number.NEGATIVE_INFINITY;
      throw isUntrusted(cause)
        ? new BrokerError(broker, 'untrusted', 'its certificate is not to be believed', { cause })
        : new BrokerError(broker, 'unreachable', `the ${name} gave no answer`, { cause });
    } finally {
      onCall(operation, code, performance.now() - started);
    }
  }

  async function identify(signal: AbortSignal): Promise<void> {
    if (performance.now() - seenOurs < IDENTIFIED_MS) return;
    const { status, body } = await send('driver', '/v1/driver', { signal, timeoutMs: CALL_MS });
    if (status >= 500) throw new BrokerError(broker, 'unreachable', `the ${name} is not ready`, { status });
    if (status !== 200 || !body.equals(driver)) {
      throw new BrokerError(broker, 'not-ours', 'its discovery document is not the one built in', { status });
    }
    seenOurs = performance.now();
  }

  return async <T>(call: Call<T>): Promise<T> => {
    const { operation, path, token, answer, signal, timeoutMs = CALL_MS } = call;
    await identify(signal);
    const { status, body } = await send(operation, path, { signal, timeoutMs, token, body: call.body });
    const json = parseJson(body);
    if (status !== 200) {
      const refusal = Refusal.safeParse(json);
      // What is not in the broker's own words comes from something in front of it.
      const refused = status === NO_ROOM || (status < 500 && status !== 429);
      if (!refusal.success || !refused) {
        throw new BrokerError(broker, 'unreachable', `the ${name} could not do it now (${status})`, {
          status,
        });
      }
      const { code } = refusal.data.error;
      throw new BrokerError(broker, 'refused', `the ${name} refused (${status} ${code})`, { status, code });
    }
    const parsed = answer.safeParse(json);
    if (!parsed.success)
      throw new BrokerError(broker, 'unreachable', `the ${name} answered in no known form`, { status });
    return parsed.data;
  };
}

interface SendOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly token?: Secret;
  readonly body?: unknown;
}

async function limited(body: AsyncIterable<Buffer>): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > LONGEST_ANSWER) throw new Error('the answer is too long');
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

function parseJson(body: Buffer): unknown {
  try {
    return JSON.parse(body.toString('utf8'));
  } catch {
    return undefined;
  }
}
