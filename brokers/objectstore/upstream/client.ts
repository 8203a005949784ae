import { createBulkDeletion } from './deletion.ts';
import { fields } from './documents.ts';
import { S3Error } from './errors.ts';
import { createMultipartRequests } from './multipart.ts';
import { createObjectRequests } from './object-requests.ts';
import { PATIENCE, type Sends } from './relay.ts';
import { encodePath } from './sigv4.ts';
import type { Target } from './target.ts';
import { createTransport, type HeadLimits } from './transport.ts';
import type { S3Client } from './types.ts';
import { textOf } from './xml.ts';

/** Milliseconds for a copy or a completion, in which a server may move all bytes of an object. */
const LONG_MS = 600_000;

export function createS3Client(
  target: Target,
  dispatcher: Sends,
  now: () => Date = () => new Date(),
  longMs = LONG_MS,
  heads?: HeadLimits,
): S3Client {
  const patience = { ...PATIENCE, headMs: longMs, pieceMs: longMs, together: true } as const;
  const transport = createTransport(target, dispatcher, now, heads);
  const source = (key: string) => `/${target.bucket}/${encodePath(key)}`;

  return {
    ...createObjectRequests(transport, source, patience),
    ...createBulkDeletion(transport),
    ...createMultipartRequests(transport, source, patience),
    createBucket: async ({ headers = {}, signal } = {}) => {
      try {
        await transport.small({ method: 'PUT', headers, signal });
      } catch (error) {
        if (!(error instanceof S3Error && error.code === 'BucketAlreadyOwnedByYou')) throw error;
      }
    },
    isVersioned: async ({ headers = {}, signal } = {}) => {
      try {
        const ask = { method: 'GET', query: { versioning: '' }, headers, signal } as const;
        return textOf(await fields(transport, ask, 'VersioningConfiguration'), 'Status') === 'Enabled';
      } catch (error) {
        if (error instanceof S3Error && error.status === 501) return false;
        throw error;
      }
    },
  };
}
