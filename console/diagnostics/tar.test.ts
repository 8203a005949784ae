import { execFileSync } from 'node:child_process';
import { buffer } from 'node:stream/consumers';
import { describe, expect, it } from 'vitest';
import { type Entry, tar } from './tar.ts';

const AT = new Date('2026-11-23T09:00:00Z');
async function* entries(...all: readonly Entry[]): AsyncGenerator<Entry> {
  yield* all;
}

describe('an archive', () => {
  it('can be read by tar, with every byte of its files', async () => {
    const long = { name: 'pods/home-services.json', content: 'ü'.repeat(5_000) };
    const bytes = await buffer(tar(entries(long, { name: 'empty.txt', content: '' }), AT));
    const run = (...args: readonly string[]) =>
      execFileSync('tar', [...args], {
        input: bytes,
        env: { ...process.env, TZ: 'UTC', LC_ALL: 'C' },
      }).toString();
    expect(run('tvf', '-')).toMatch(
      /^-rw-r--r-- 0\/0 +10000 2026-11-23 09:00 pods\/home-services\.json\n-rw-r--r-- 0\/0 +0 2026-11-23 09:00 empty\.txt\n$/,
    );
    expect(run('xOf', '-', long.name)).toBe(long.content);
  });

  it('refuses a file name that leads out of it', async () => {
    await expect(buffer(tar(entries({ name: 'a\0b', content: '' }), AT))).rejects.toThrow(TypeError);
    await expect(buffer(tar(entries({ name: '../b', content: '' }), AT))).rejects.toThrow(TypeError);
    await expect(buffer(tar(entries({ name: '/b', content: '' }), AT))).rejects.toThrow(TypeError);
  });
});
