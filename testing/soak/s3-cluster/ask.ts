import { createHash } from 'node:crypto';
import { S3ServiceException } from '@aws-sdk/client-s3';
import type { Content } from './ledger.ts';
import type { Attempt, Refusal } from './watch.ts';

export const contentOf = (bytes: Uint8Array): Content => ({
  sha256: createHash('sha256').update(bytes).digest('hex'),
  size: bytes.length,
});

interface Ask {
  readonly method: string;
  readonly path: string;
  readonly body?: Buffer;
  readonly json?: unknown;
}

/** Sends one request to the data listener; returns the bytes of a good answer. A 404 of a read is a good answer, too. */
export async function ask(
  base: string,
  token: string,
  { method, path, body, json }: Ask,
): Promise<Attempt<Answer>> {
  try {
    const response = await fetch(`${base}${path}`, {
      method,
      headers: {
        authorization: `Bearer ${token}`,
        ...(json === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(json === undefined ? {} : { body: JSON.stringify(json) }),
      ...(body === undefined ? {} : { body: new Uint8Array(body) }),
    });
    const bytes = Buffer.from(await response.arrayBuffer());
    if (response.ok) return { value: { status: response.status, bytes } };
    const code = codeIn(bytes);
    if (method === 'GET' && code === 'not_found') return { value: { status: 404, bytes } };
    const retryAfter = response.headers.get('retry-after');
    return {
      refused: {
        status: response.status,
        code,
        retryAfter: retryAfter === null ? undefined : Number(retryAfter),
      },
    };
  } catch (error) {
    return { cut: reasonOf(error) };
  }
}

export interface Answer {
  readonly status: number;
  readonly bytes: Buffer;
}

function codeIn(bytes: Buffer): string {
  try {
    return String(JSON.parse(bytes.toString('utf8')).error.code);
  } catch {
    return 'no code';
  }
}

/** The same for a call of the AWS SDK. */
export async function attempt<T>(call: () => Promise<T>): Promise<Attempt<T>> {
  try {
    return { value: await call() };
  } catch (error) {
    return error instanceof S3ServiceException ? { refused: refusalOf(error) } : { cut: reasonOf(error) };
  }
}

function refusalOf({ name, $metadata, $response }: S3ServiceException): Refusal {
  const retryAfter = $response?.headers['retry-after'];
  // The SDK reports an error within a 200 answer as 503. Only such an answer is chunked; a refusal has a length.
  const late = $response?.headers['transfer-encoding'] === 'chunked' && retryAfter === undefined;
  return {
    status: $metadata.httpStatusCode ?? 0,
    code: name,
    retryAfter: retryAfter === undefined ? undefined : Number(retryAfter),
    ...(late ? { late } : {}),
  };
}

function reasonOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const { cause } = error;
  return cause instanceof Error ? `${error.message}: ${cause.message}` : error.message;
}
