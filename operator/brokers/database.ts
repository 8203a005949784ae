import { randomBytes } from 'node:crypto';
import { request } from 'undici';
import { z } from 'zod';
import { Secret } from '../secret.ts';

/**
 * The database broker as its wire has it. A call is made once; the work queue tries again. No token is sent before
 * the broker's discovery document was seen to be, byte for byte, the one built in.
 */
export interface DatabaseBroker {
  provision(capsule: string, principal: Secret, signal: AbortSignal): Promise<Secret>;
  createApp(capsule: string, app: string, principal: Secret, signal: AbortSignal): Promise<Secret>;
  dropApp(capsule: string, app: string, principal: Secret, signal: AbortSignal): Promise<void>;
  drop(capsule: string, principal: Secret, signal: AbortSignal): Promise<void>;
  finalize(capsule: string, signal: AbortSignal): Promise<void>;
}

export type BrokerFailure = 'unreachable' | 'not-ours' | 'refused';

/** Why a broker did not do what it was asked. `code` is the broker's own, from its closed list. */
export class BrokerError extends Error {
  override readonly name = 'BrokerError';
  readonly failure: BrokerFailure;
  readonly status: number | undefined;
  readonly code: string | undefined;

  constructor(
    failure: BrokerFailure,
    message: string,
    options: { readonly status?: number; readonly code?: string; readonly cause?: unknown } = {},
  ) {
    super(message, 'cause' in options ? { cause: options.cause } : {});
    this.failure = failure;
    this.status = options.status;
    this.code = options.code;
  }
}

export interface DatabaseBrokerOptions {
  readonly url: string;
  /** Read for every call, as a rotated token is written over the old one. */
  readonly provisionerToken: () => Promise<Secret>;
  readonly driver: Buffer;
  readonly onCall?: (operation: string, code: string, tookMs: number) => void;
}

const Provisioned = z.object({ database_url: z.string().min(1), created: z.boolean(), trace_id: z.string() });
const Dropped = z.object({ dropped: z.union([z.string(), z.array(z.string())]), trace_id: z.string() });
const Finalized = z.object({ finalized: z.boolean(), trace_id: z.string() });
const Refusal = z.object({
  error: z.object({ code: z.string().regex(/^[a-z_]{1,40}$/) }),
  trace_id: z.string(),
});

const CALL_MS = 15_000;
/** A broker that was ours is believed for so long: a burst of Assistants asks once. */
const IDENTIFIED_MS = 5_000;
/** A drop waits for a checkpoint of the whole server. */
const DROP_MS = 60_000;
const LONGEST_ANSWER = 64 * 1024;

export function newPrincipal(): Secret {
  return new Secret(`spc_dbp_${randomBytes(32).toString('base64url')}`);
}

export function databaseBroker(options: DatabaseBrokerOptions): DatabaseBroker {
  const { url, provisionerToken, driver, onCall = () => {} } = options;
  let seenOurs = Number.NEGATIVE_INFINITY;

  async function send(
    operation: string,
    path: string,
    init: SendOptions,
  ): Promise<{ status: number; body: Buffer }> {
    const started = performance.now();
    let code = '<error>';
    try {
      const answer = await request(url.replace(/\/$/, '') + path, {
        method: init.body === undefined ? 'GET' : 'POST',
        headers: {
          accept: 'application/json',
          traceparent: `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01`,
          ...(init.token ? { authorization: `Bearer ${init.token.reveal()}` } : {}),
          ...(init.body === undefined ? {} : { 'content-type': 'application/json' }),
        },
        body: init.body === undefined ? null : JSON.stringify(init.body),
        signal: AbortSignal.any([init.signal, AbortSignal.timeout(init.timeoutMs)]),
        headersTimeout: init.timeoutMs,
        bodyTimeout: init.timeoutMs,
      });
      const body = await limited(answer.body);
      code = String(answer.statusCode);
      return { status: answer.statusCode, body };
    } catch (cause) {
      seenOurs = Number.NEGATIVE_INFINITY;
      throw new BrokerError('unreachable', 'the database broker gave no answer', { cause });
    } finally {
      onCall(operation, code, performance.now() - started);
    }
  }

  async function identify(signal: AbortSignal): Promise<void> {
    if (performance.now() - seenOurs < IDENTIFIED_MS) return;
    const { status, body } = await send('driver', '/v1/driver', { signal, timeoutMs: CALL_MS });
    if (status >= 500) throw new BrokerError('unreachable', 'the database broker is not ready', { status });
    if (status !== 200 || !body.equals(driver)) {
      throw new BrokerError('not-ours', 'its discovery document is not the one built in', { status });
    }
    seenOurs = performance.now();
  }

  async function post<T>(
    operation: string,
    path: string,
    answer: z.ZodType<T>,
    init: SendOptions,
  ): Promise<T> {
    await identify(init.signal);
    const { status, body } = await send(operation, path, init);
    const json = parseJson(body);
    if (status !== 200) {
      const refusal = Refusal.safeParse(json);
      // What is not in the broker's own words comes from something in front of it.
      if (!refusal.success || status >= 500 || status === 429) {
        throw new BrokerError('unreachable', `the database broker could not do it now (${status})`, {
          status,
        });
      }
      const { code } = refusal.data.error;
      throw new BrokerError('refused', `the database broker refused (${status} ${code})`, { status, code });
    }
    const parsed = answer.safeParse(json);
    if (!parsed.success)
      throw new BrokerError('unreachable', 'the database broker answered in no known form', { status });
    return parsed.data;
  }

  const call = (signal: AbortSignal, token: Secret, body: unknown, timeoutMs = CALL_MS): SendOptions => ({
    signal,
    token,
    body,
    timeoutMs,
  });

  return {
    async provision(capsule_id, principal, signal) {
      const body = { capsule_id, principal_token: principal.reveal() };
      const init = call(signal, await provisionerToken(), body);
      const { database_url } = await post('capsule.provision', '/v1/capsules/provision', Provisioned, init);
      return new Secret(database_url);
    },
    async createApp(capsule_id, app_id, principal, signal) {
      const init = call(signal, principal, { capsule_id, app_id });
      const { database_url } = await post(
        'capsule.app.create',
        '/v1/capsules/apps/create',
        Provisioned,
        init,
      );
      return new Secret(database_url);
    },
    async dropApp(capsule_id, app_id, principal, signal) {
      const init = call(signal, principal, { capsule_id, app_id }, DROP_MS);
      await post('capsule.app.drop', '/v1/capsules/apps/drop', Dropped, init);
    },
    async drop(capsule_id, principal, signal) {
      const init = call(signal, principal, { capsule_id }, DROP_MS);
      await post('capsule.drop', '/v1/capsules/drop', Dropped, init);
    },
    async finalize(capsule_id, signal) {
      const init = call(signal, await provisionerToken(), { capsule_id });
      await post('capsule.finalize', '/v1/capsules/finalize', Finalized, init);
    },
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
