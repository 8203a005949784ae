import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdirSync, readdirSync, readlinkSync } from 'node:fs';
import { join } from 'node:path';
import type { S3Server } from '../../../testing/s3.ts';
import { BUCKET } from './broker.ts';

const sha256 = (text: string) => createHash('sha256').update(text).digest('hex');

/**
 * Stops the S3 server before the last step of every write of a key, by the lock that it takes for that step; a completion
 * has copied all parts by then. Returns what lets it go on.
 */
export async function holdWrites({ directory }: S3Server, key: string, bucket = BUCKET): Promise<() => void> {
  const locks = join(directory, '.vgwlocks', sha256(bucket));
  mkdirSync(locks, { recursive: true });
  const lock = spawn('flock', [join(locks, sha256(key).slice(0, 2)), 'sh', '-c', 'echo held; exec cat'], {
    stdio: ['pipe', 'pipe', 'inherit'],
  });
  await new Promise((resolve, reject) => lock.stdout.once('data', resolve).once('end', reject));
  return () => void lock.stdin.end();
}

/** Whether the S3 server is writing a part: its file has no name yet. */
export const isWritingPart = (server: S3Server): boolean =>
  hasOpen(server, (file) => file.includes('/.sgwtmp/multipart/'));

/** Whether the S3 server is reading the object of a key. */
export const isReading = (server: S3Server, key: string): boolean =>
  hasOpen(server, (file) => file === join(server.directory, BUCKET, key));

function hasOpen({ pid }: S3Server, isFile: (file: string) => boolean): boolean {
  const descriptors = `/proc/${pid}/fd`;
  return readdirSync(descriptors).some((fd) => {
    try {
      return isFile(readlinkSync(`${descriptors}/${fd}`));
    } catch {
      return false;
    }
  });
}
