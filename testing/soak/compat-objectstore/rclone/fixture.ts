import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { S3Keys } from '../../../../brokers/objectstore/api/s3/testing/clients.ts';
import { lines, write } from '../../outcome.ts';

/** What each case has: rclone, a directory, and a prefix in each bucket. */
export interface Fixture {
  /** Returns the standard output of a successful run. */
  rclone(args: readonly string[], input?: string | Buffer): Promise<string>;
  /** Returns the error output of a run that must fail. */
  fails(args: readonly string[]): Promise<string>;
  readonly local: string;
  readonly data: string;
  readonly shared: string;
  /** The remote with all buckets; `keys` replace the valid ones. */
  remote(keys?: Partial<S3Keys>): string;
}

/** Preparations and checks that several cases share. */

export type Play = (fixture: Fixture) => Promise<void>;

export const MIB = 1024 * 1024;
/** The modification time of old files. */
export const OLD = new Date('2020-02-03T04:05:06.789Z');
/** rclone's smallest size of parts. */
export const PARTS = ['--s3-chunk-size', '5M', '--s3-upload-cutoff', '5M'];

interface Listed {
  readonly Path: string;
  readonly Size: number;
  readonly ModTime: string;
  readonly MimeType: string;
  readonly Hashes?: Readonly<Record<string, string>>;
  readonly Metadata?: Readonly<Record<string, string>>;
}

export const found = async ({ rclone }: Fixture, ...args: readonly string[]): Promise<readonly Listed[]> =>
  JSON.parse(await rclone(['lsjson', ...args]));

/** Creates three files here and in the bucket. */
export async function three(fixture: Fixture): Promise<readonly string[]> {
  write(fixture.local, { a: 'one', 'b/c': 'three', 'b/d/e': 'seventeen letters' });
  await fixture.rclone(['copy', fixture.local, fixture.data]);
  return ['a', 'b/c', 'b/d/e'];
}

/** Creates one file of 12 MiB. */
export function large(fixture: Fixture): string {
  write(fixture.local, { large: randomBytes(12 * MIB + 1) });
  return join(fixture.local, 'large');
}

export async function names(fixture: Fixture, at = fixture.data): Promise<string[]> {
  return lines(await fixture.rclone(['lsf', '-R', '--files-only', at])).sort();
}
