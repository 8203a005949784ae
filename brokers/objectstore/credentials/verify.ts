import { randomBytes } from 'node:crypto';
import { DialError, Secret, type VerificationCheck } from '@space/broker-kit';
import { createS3Client, type S3Client } from '../upstream/client.ts';
import { S3Error } from '../upstream/errors.ts';
import type { Target } from '../upstream/target.ts';
import { routeOf } from '../upstream/target.ts';
import type { Fields } from './form.ts';
import { guardedClient, type Reach } from './guarded.ts';

/** The check that a candidate failed, and nothing else of what its endpoint said; undefined when it can do all that will be asked of it. */
export type Verify = (fields: Fields) => Promise<VerificationCheck | undefined>;

export interface VerifyOptions extends Reach {
  readonly timeoutMs: number;
  readonly random?: (bytes: number) => Buffer;
}

/** Does with the candidate what an Assistant would: list, put, look, read back, delete, under a name of its own. */
export function createVerify({ dialler, ca, timeoutMs, random = randomBytes }: VerifyOptions): Verify {
  return async (fields) => {
    const target = targetOf(fields);
    // The last fifth is for taking away what was put.
    const tries = AbortSignal.timeout(timeoutMs * 0.8);
    const deadline = AbortSignal.timeout(timeoutMs);
    const client = guardedClient(routeOf(target).origin, { dialler, ca, deadline });
    try {
      await tryOut(createS3Client(target, client), { tries, deadline }, random);
      return undefined;
    } catch (error) {
      // Two timers that are both late fire in either order.
      return tries.aborted || deadline.aborted ? 'timeout' : checkOf(error);
    } finally {
      // Whatever is still under way must not keep the values alive.
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

async function tryOut(
  s3: S3Client,
  { tries: signal, deadline }: Signals,
  random: (bytes: number) => Buffer,
): Promise<void> {
  const prefix = `space-verification/${random(16).toString('hex')}`;
  const key = `${prefix}/canary`;
  const canary = random(16);
  await s3.list({ prefix: `${prefix}/`, limit: 1 }, { signal });
  try {
    await s3.put(key, canary, { signal });
    await s3.head(key, { signal });
    const { body } = await s3.read(key, canary.length, { signal });
    if (!body.equals(canary)) throw new NotTheSame();
  } catch (error) {
    // What failed is the answer, whether or not it can be taken away.
    await s3.delete(key, { signal: deadline }).catch(() => undefined);
    throw error;
  }
  await s3.delete(key, { signal });
}

const AUTH = new Set([
  'InvalidAccessKeyId',
  'SignatureDoesNotMatch',
  'AuthorizationHeaderMalformed',
  'InvalidToken',
  'ExpiredToken',
  'RequestTimeTooSkewed',
  'Unauthorized',
  // The S3 server of the chart, of a key that nobody has.
  'XAdminUserNotFound',
]);

function checkOf(error: unknown): VerificationCheck {
  const cause = error instanceof S3Error && error.cause instanceof Error ? error.cause : error;
  if (cause instanceof DialError) return cause.failure === 'timeout' ? 'timeout' : 'unreachable';
  // An endpoint that answers with what is not S3 has no bucket of that name.
  if (!(error instanceof S3Error)) return 'bucket';
  if (error.kind !== 'answered') return error.kind;
  if (AUTH.has(error.code) || error.status === 401) return 'auth';
  if (error.status === 403) return 'permission';
  return error.status >= 500 ? 'unreachable' : 'bucket';
}
