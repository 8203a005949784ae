import { randomBytes } from 'node:crypto';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Secret } from '@space/broker-kit';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { copy } from '../backup/copy.ts';
import { restore } from '../backup/restore.ts';
import { runOf, type Servers, startServers } from '../backup/testing/buckets.ts';
import { UnfitBucketError } from './fit.ts';
import { claimBucket, OWNER_KEY, type Owner, ownerOf } from './owner.ts';
import type { S3Client } from './types.ts';

let servers: Servers;
beforeAll(async () => {
  servers = await startServers();
});
afterAll(() => servers?.close());

const newKey = () => new Secret(randomBytes(32));
const newOwner = (space: string) => ownerOf(newKey(), space);
const claim = (s3: Pick<S3Client, 'read' | 'put' | 'list'>, owner: Owner) =>
  claimBucket(s3, { bucket: 'files', owner }, AbortSignal.timeout(60_000));
const fileOf = (bucket: string, key: string) => join(servers.s3.directory, bucket, key);

describe('a bucket', () => {
  it('without an owner is claimed, and its Space recognises it at every start', async () => {
    const { name, s3 } = servers.bucket();
    const key = newKey();
    await claim(s3, ownerOf(key, 'home'));
    const written = readFileSync(fileOf(name, OWNER_KEY), 'utf8');
    expect(JSON.parse(written)).toMatchObject({ v: 1, space: 'home' });
    expect(written).not.toContain(key.reveal().toString('hex'));
    await claim(s3, ownerOf(key, 'home'));
    expect(readFileSync(fileOf(name, OWNER_KEY), 'utf8')).toBe(written);
  });

  it('of another Space is refused, with its name and what to do, and is not changed', async () => {
    const { name, s3 } = servers.bucket();
    const cabin = newOwner('cabin');
    await claim(s3, cabin);
    const refused = await claim(s3, newOwner('home')).catch((error: unknown) => error);
    expect(refused).toBeInstanceOf(UnfitBucketError);
    expect(String(refused)).toMatch(
      /"files" cannot be the Space's: it belongs to the Space "cabin"; name a bucket of this Space's own/,
    );
    expect(JSON.parse(readFileSync(fileOf(name, OWNER_KEY), 'utf8'))).toEqual({ v: 1, ...cabin });
  });

  it('of a Space of the same name with other keys is refused', async () => {
    const { s3 } = servers.bucket();
    await claim(s3, newOwner('home'));
    await expect(claim(s3, newOwner('home'))).rejects.toThrow(
      /belongs to another Space of the name "home", with other keys; .* Secret objectstore-keys/,
    );
  });

  it('is refused if the record of its owner is damaged', async () => {
    for (const text of ['', '{"v":1}', '{"v":2,"space":"home","id":"1"}', 'x'.repeat(8_192)]) {
      const { name, s3 } = servers.bucket();
      writeFileSync(fileOf(name, OWNER_KEY), text);
      await expect(claim(s3, newOwner('home'))).rejects.toThrow(UnfitBucketError);
      expect(readFileSync(fileOf(name, OWNER_KEY), 'utf8')).toBe(text);
    }
  });

  it('that two Spaces claim at one time belongs to one, and the other is refused with its name', async () => {
    for (let i = 0; i < 20; i += 1) {
      const { s3 } = servers.bucket();
      // Both have read that it has no owner before either writes.
      let left = 2;
      let bothLooked = () => {};
      const looked = new Promise<void>((resolve) => {
        bothLooked = resolve;
      });
      const racing = {
        ...s3,
        put: async (...args: Parameters<S3Client['put']>) => {
          left -= 1;
          if (left === 0) bothLooked();
          await looked;
          return s3.put(...args);
        },
      };
      const [home, cabin] = await Promise.allSettled([
        claim(racing, newOwner('home')),
        claim(racing, newOwner('cabin')),
      ]);
      expect([home.status, cabin.status].toSorted()).toEqual(['fulfilled', 'rejected']);
      const [winner, loser] = home.status === 'fulfilled' ? ['home', cabin] : ['cabin', home];
      expect(String(loser.status === 'rejected' && loser.reason)).toContain(
        `belongs to the Space "${winner}"`,
      );
    }
  });

  it('that two replicas of one Space claim at one time belongs to that Space', async () => {
    const { s3 } = servers.bucket();
    const owner = newOwner('home');
    await Promise.all(Array.from({ length: 8 }, () => claim(s3, owner)));
  });

  it('into which a backup was restored belongs to the restored Space', async () => {
    const [from, backup, to] = [servers.bucket(), servers.bucket(), servers.bucket()];
    const key = newKey();
    await claim(from.s3, ownerOf(key, 'test'));
    await copy(await runOf(servers, from.s3, backup.s3));
    await restore(await runOf(servers, to.s3, backup.s3), { at: undefined, makesBucket: false });
    expect(existsSync(fileOf(to.name, OWNER_KEY))).toBe(true);
    await claim(to.s3, ownerOf(key, 'test'));
    await expect(claim(to.s3, newOwner('test'))).rejects.toThrow(/with other keys/);
  });

  describe('of a version that wrote no owner', () => {
    const filled = (...spaces: string[]) => {
      const { name, s3 } = servers.bucket();
      mkdirSync(fileOf(name, 'custody/v1'), { recursive: true });
      for (const space of spaces) writeFileSync(fileOf(name, `custody/v1/epoch-${space}`), '{}');
      return { name, s3 };
    };

    it('is claimed by the Space whose records are in it', async () => {
      const { name, s3 } = filled('home');
      await claim(s3, newOwner('home'));
      expect(existsSync(fileOf(name, OWNER_KEY))).toBe(true);
    });

    it('is refused for any other, with the name in its records', async () => {
      const { name, s3 } = filled('home-2');
      await expect(claim(s3, newOwner('home'))).rejects.toThrow(/belongs to the Space "home-2"/);
      expect(existsSync(fileOf(name, OWNER_KEY))).toBe(false);
    });
  });
});
