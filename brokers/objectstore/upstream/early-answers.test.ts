import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable } from 'node:stream';
import type { Pool } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { makeAuthority } from '../../../testing/certificates.ts';
import { type S3Server, startS3Server } from '../../../testing/s3.ts';
import { targetAt } from '../testing/target.ts';
import { createS3Client } from './client.ts';
import { S3Error } from './errors.ts';
import { createPool } from './managed.ts';
import type { S3Client } from './types.ts';

/** The chart's S3 server refuses many a put before it reads the body, and closes the connection. */

const MIB = 1024 * 1024;
const OTHER_TAG = '"00000000000000000000000000000000"';

describe.each(['in plain text', 'over TLS'])('%s', (how) => {
  let directory: string;
  let server: S3Server;
  let pool: Pool;
  let s3: S3Client;
  beforeAll(async () => {
    directory = mkdtempSync(join(tmpdir(), 'space-early-'));
    const made = how === 'over TLS' ? makeAuthority(directory, 'authority') : undefined;
    server = await startS3Server(made === undefined ? {} : { tls: made.sign('s3', ['IP:127.0.0.1']) });
    server.makeBucket('bucket');
    const target = targetAt(server, 'bucket');
    pool = createPool(target, {
      connections: 1,
      authority: made === undefined ? undefined : () => readFileSync(made.cert, 'utf8'),
    });
    s3 = createS3Client(target, pool);
    await s3.put('object', Buffer.from('x'));
    await s3.put('folder/object', Buffer.from('x'));
  });
  afterAll(async () => {
    await pool?.destroy();
    await server?.remove();
    rmSync(directory, { recursive: true });
  });

  const body = (length: number) => ({
    length,
    stream: Readable.from(Array.from({ length: length / (MIB / 16) }, () => Buffer.alloc(MIB / 16))),
  });

  it.each([
    ['PreconditionFailed', 'object', { 'if-none-match': '*' }],
    ['PreconditionFailed', 'object', { 'if-match': OTHER_TAG }],
    ['NoSuchKey', 'absent', { 'if-match': OTHER_TAG }],
    ['ExistingObjectIsDirectory', 'folder', {}],
    ['ObjectParentIsFile', 'object/below', {}],
    ['KeyTooLongError', `folder/${'x'.repeat(256)}`, {}],
  ])('%s is read although the body could not be sent completely', async (code, key, headers) => {
    for (const size of [MIB, 8 * MIB, 8 * MIB, 8 * MIB]) {
      const failed = await s3.put(key, body(size), { headers }).catch((error: unknown) => error);
      expect(failed).toBeInstanceOf(S3Error);
      expect((failed as S3Error).code).toBe(code);
    }
    await expect(s3.put('after', body(MIB))).resolves.toMatchObject({ etag: expect.any(String) });
  });

  it('a part of an ended upload is refused as such', async () => {
    const failed = await s3.putPart('object', 'none', 1, body(8 * MIB)).catch((error: unknown) => error);
    expect((failed as S3Error).code).toBe('NoSuchUpload');
  });
});
