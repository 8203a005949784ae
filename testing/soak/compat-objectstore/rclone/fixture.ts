import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import type { S3Keys } from '../../../../brokers/objectstore/api/s3/testing/clients.ts';
import { lines, write } from '../../outcome.ts';

/** What a case has: rclone, a directory of its own, and a place of its own in each bucket. */
export interface Fixture {
  /** Standard output of a run that ends well. */
  rclone(args: readonly string[], input?: string | Buffer): Promise<string>;
  /** What one that ends badly says. */
  fails(args: readonly string[]): Promise<string>;
  readonly local: string;
  readonly data: string;
  readonly shared: string;
  /** All buckets; with other keys than the right ones where they are given. */
  remote(keys?: Partial<S3Keys>): string;
}

/** What several cases begin with, and how they look at what became of it. */

export type Play = (fixture: Fixture) => Promise<void>;

export const MIB = 1024 * 1024;
/** The time of files that are to be old. */
export const OLD = new Date('2020-02-03T04:05:06.789Z');
/** rclone's least. */
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

/** Three files, here and there. */
export async function three(fixture: Fixture): Promise<readonly string[]> {
  write(fixture.local, { a: 'one', 'b/c': 'three', 'b/d/e': 'seventeen letters' });
  await fixture.rclone(['copy', fixture.local, fixture.data]);
  return ['a', 'b/c', 'b/d/e'];
}

/** One file of 12 MiB. */
export function large(fixture: Fixture): string {
  write(fixture.local, { large: randomBytes(12 * MIB + 1) });
  return join(fixture.local, 'large');
}

export async function names(fixture: Fixture, at = fixture.data): Promise<string[]> {
  return lines(await fixture.rclone(['lsf', '-R', '--files-only', at])).sort();
}
