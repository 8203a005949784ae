import { randomBytes } from 'node:crypto';
import { Readable } from 'node:stream';
import { setTimeout as pause } from 'node:timers/promises';
import { DialError, Secret, type VerificationCheck } from '@space/broker-kit';
import type { Fields } from '@space/contracts/objectstore';
import { createS3Client } from '../../upstream/client.ts';
import { S3Error } from '../../upstream/errors.ts';
import { routeOf, type Target } from '../../upstream/target.ts';
import type { S3Client } from '../../upstream/types.ts';
import { guardedClient, type Reach } from './guarded.ts';

/** The check that a candidate failed, without anything else of the endpoint's answer; undefined if it passed all. */
export type Verify = (fields: Fields) => Promise<VerificationCheck | undefined>;

export interface VerifyOptions extends Reach {
  readonly timeoutMs: number;
  readonly random?: (bytes: number) => Buffer;
}

/**
 * Uses the candidate as the data plane would for an Assistant: list, put, head, read, multipart upload, read, delete,
 * under a random name.
 */
export function createVerify({ dialler, ca, timeoutMs, random = randomBytes }: VerifyOptions): Verify {
  return async (fields) => {
    const target = targetOf(fields);
    // The last fifth of the time is for deleting the test objects.
    const tries = AbortSignal.timeout(timeoutMs * 0.8);
    const deadline = AbortSignal.timeout(timeoutMs);
    const client = guardedClient(routeOf(target).origin, { dialler, ca, deadline });
    try {
      const s3 = createS3Client(target, client);
      await whileBusy(() => tryOut(s3, { tries, deadline }, random), tries);
      return undefined;
    } catch (error) {
      // Timers that are both late fire in either order.
      return tries.aborted || deadline.aborted ? 'timeout' : checkOf(error);
    } finally {
      // Requests that still run must not keep the values in memory.
      await client.destroy();
    }
  };
}

function targetOf(fields: Fields): Target {
  return {
    origin: fields.endpoint,
    region: fields.region,
    bucket: fields.bucket,
    addressing: fields.addressing,
    accessKeyId: new Secret(fields['access-key-id']),
    secretAccessKey: new Secret(fields['secret-access-key']),
  };
}

class NotTheSame extends Error {}

interface Signals {
  readonly tries: AbortSignal;
  readonly deadline: AbortSignal;
}

/** Milliseconds before further attempts at an endpoint that is too busy. */
const PAUSES_MS = [200, 800];

/**
 * S3 servers answer 503 when a request can be repeated: AWS if there are many, versitygw if it conflicts with another. No
 * directory can have a canary's random name: versitygw says so if another verification's end removes the one above it.
 */
const isBusy = (error: unknown) =>
  error instanceof S3Error &&
  error.kind === 'answered' &&
  (error.status === 503 || error.code === 'ExistingObjectIsDirectory');

async function whileBusy(attempt: () => Promise<void>, signal: AbortSignal): Promise<void> {
  for (const ms of PAUSES_MS) {
    try {
      return await attempt();
    } catch (error) {
      if (!isBusy(error)) throw error;
      await pause(ms, undefined, { signal });
    }
  }
  return attempt();
}

async function tryOut(s3: S3Client, signals: Signals, random: (bytes: number) => Buffer): Promise<void> {
  const { tries: signal, deadline } = signals;
  const prefix = `space-verification/${random(16).toString('hex')}`;
  const key = `${prefix}/canary`;
  const canary = random(16);
  await s3.list({ prefix: `${prefix}/`, limit: 1 }, { signal });
  try {
    // The body is a stream as for Assistants, since not every provider supports the coding in which it is sent.
    await s3.put(key, streamed(canary), { signal });
    await s3.head(key, { signal });
    await expectSame(s3, key, canary, signal);
    const parts = random(16);
    await putInParts(s3, key, parts, signals);
    await expectSame(s3, key, parts, signal);
  } catch (error) {
    // The failure is the answer, whether the object can be deleted or not.
    await s3.delete(key, { signal: deadline }).catch(() => undefined);
    throw error;
  }
  await s3.delete(key, { signal });
}

/** An upload of one part, which is the last one and so may be small. */
async function putInParts(
  s3: S3Client,
  key: string,
  bytes: Buffer,
  { tries: signal, deadline }: Signals,
): Promise<void> {
  const upload = await s3.createUpload(key, { signal });
  try {
    const { etag } = await s3.putPart(key, upload, 1, streamed(bytes), { signal });
    await s3.completeUpload(key, upload, [{ number: 1, etag }], { signal });
  } catch (error) {
    await s3.abortUpload(key, upload, { signal: deadline }).catch(() => undefined);
    throw error;
  }
}

async function expectSame(s3: S3Client, key: string, bytes: Buffer, signal: AbortSignal): Promise<void> {
  const { body } = await s3.read(key, bytes.length, { signal });
  if (!body.equals(bytes)) throw new NotTheSame();
}

function streamed(bytes: Buffer) {
  return { stream: Readable.from([bytes]), length: bytes.length };
}

const AUTH = new Set([
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'AuthorizationHeaderMalformed',
  'InvalidToken',
  'ExpiredToken',
  'RequestTimeTooSkewed',
  'Unauthorized',
  // The chart's S3 server returns this for an unknown key.
  'XAdminUserNotFound',
]);

function checkOf(error: unknown): VerificationCheck {
  const cause = error instanceof S3Error && error.cause instanceof Error ? error.cause : error;
  if (cause instanceof DialError) return cause.failure === 'timeout' ? 'timeout' : 'unreachable';
  // An endpoint that answers with something else than S3 has no bucket of that name.
  if (!(error instanceof S3Error)) return 'bucket';
  if (error.kind !== 'answered') return error.kind;
  if (AUTH.has(error.code) || error.status === 401) return 'auth';
  if (error.status === 403) return 'permission';
  // The endpoint does not support an operation that Assistants need.
  if (error.status === 501) return 'bucket';
  return error.status >= 500 ? 'unreachable' : 'bucket';
}
