import { randomBytes } from 'node:crypto';
import { Agent, type Dispatcher, request } from 'undici';
import { z } from 'zod';
import { withDeadline } from '../runtime/deadline.ts';
import type { Secret } from '../secret.ts';

/** One running copy of the gateway. */
export interface Replica {
  /** It names one start of its process: after another start a replica has forgotten everything. */
  readonly key: string;
  readonly address: string;
  /** Whether callers are sent to it, so that it must acknowledge. */
  readonly serving: boolean;
}

/** Why a replica did not do what it was told; the message holds nothing that was sent. */
export class ReplicaError extends Error {
  override readonly name = 'ReplicaError';
  readonly code: string;

  constructor(code: string, options: { readonly cause?: unknown } = {}) {
    super(`an egress gateway replica said ${code}`, options);
    this.code = code;
  }
}

export interface ReplicaOptions {
  readonly port: number;
  readonly token: () => Promise<Secret>;
  /** The only authority whose certificates are believed, and the name that they are for; without both, plain HTTP. */
  readonly trust?: { readonly readCa: () => Promise<string>; readonly name: string } | undefined;
  readonly onCall?: (operation: string, code: string, tookMs: number) => void;
}

const CALL_MS = 5_000;
const LONGEST_ANSWER = 256 * 1024;
const Refusal = z.object({ error: z.object({ code: z.string().regex(/^[a-z_]{1,40}$/) }) });

export type CallReplica = <T>(
  replica: Replica,
  operation: string,
  path: string,
  body: unknown,
  answer: z.ZodType<T>,
  signal: AbortSignal,
) => Promise<T>;

/** The way to a replica, by its pod's address. A call is made once; the work queue tries again. */
export function replicaCaller(options: ReplicaOptions): CallReplica {
  const { port, token, trust, onCall = () => {} } = options;
  const scheme = trust ? 'https' : 'http';
  const dispatcher = dispatcherOf(trust);

  return async (replica, operation, path, body, answer, signal) => {
    const started = performance.now();
    let code = '<error>';
    try {
      const host = replica.address.includes(':') ? `[${replica.address}]` : replica.address;
      const credential = await token();
      const { response, json } = await withDeadline(CALL_MS, [signal], async (ending) => {
        const response = await request(`${scheme}://${host}:${port}${path}`, {
          dispatcher: await dispatcher(),
          method: 'POST',
          headers: {
            authorization: `Bearer ${credential.reveal()}`,
            'content-type': 'application/json',
            traceparent: `00-${randomBytes(16).toString('hex')}-${randomBytes(8).toString('hex')}-01`,
          },
          body: JSON.stringify(body),
          signal: ending,
        });
        code = String(response.statusCode);
        return { response, json: await limitedJson(response.body) };
      });
      if (response.statusCode !== 200) {
        const refusal = Refusal.safeParse(json);
        throw new ReplicaError(refusal.success ? refusal.data.error.code : code);
      }
      const parsed = answer.safeParse(json);
      if (!parsed.success) throw new ReplicaError('something in no known form');
      return parsed.data;
    } catch (cause) {
      throw cause instanceof ReplicaError ? cause : new ReplicaError('nothing', { cause });
    } finally {
      onCall(operation, code, performance.now() - started);
    }
  };
}

/** The authority's text is read for each call, so that an exchanged file is taken at the next one. */
function dispatcherOf(trust: ReplicaOptions['trust']): () => Promise<Dispatcher> {
  let known: { readonly ca: string | undefined; readonly agent: Agent } | undefined;
  return async () => {
    const ca = await trust?.readCa();
    if (known && known.ca === ca) return known.agent;
    void known?.agent.close();
    const connect = trust ? { ca, servername: trust.name, minVersion: 'TLSv1.3' as const } : {};
    known = { ca, agent: new Agent({ connect: { ...connect, timeout: CALL_MS } }) };
    return known.agent;
  };
}

async function limitedJson(body: AsyncIterable<Buffer>): Promise<unknown> {
  const chunks: Buffer[] = [];
  let length = 0;
  for await (const chunk of body) {
    length += chunk.length;
    if (length > LONGEST_ANSWER) throw new ReplicaError('too much');
    chunks.push(chunk);
  }
  try {
    return JSON.parse(Buffer.concat(chunks).toString('utf8'));
  } catch {
    return undefined;
  }
}
