import { generateX25519Identity } from 'age-encryption';
import { expect, test } from 'vitest';
import { writeHeadLast } from './head-last.ts';
import { createSealer } from './sealer.ts';

const MIB = 1024 * 1024;

/** Some S3 servers, R2 among them, complete only an upload whose parts, but the last, have one length. */
test.each([8 * MIB, 9 * MIB, 24 * MIB, 24 * MIB + 5_000, 24 * MIB + 10_000, 40 * MIB + 1])(
  'all parts but the last have one length: %i bytes',
  async (length) => {
    const sealer = await createSealer(await generateX25519Identity());
    const parts = new Map<number, number>();
    let completed: readonly number[] = [];
    const s3: Parameters<typeof writeHeadLast>[0]['s3'] = {
      put: async () => ({ etag: '"x"' }),
      head: async () => ({ status: 200, headers: {} }),
      delete: async () => undefined,
      createUpload: async () => 'id',
      putPart: async (_key, _id, number, body) => {
        parts.set(number, body.length);
        return { etag: `"${number}"` };
      },
      completeUpload: async (_key, _id, listed) => {
        completed = listed.map(({ number }) => number);
        return { etag: '"x"' };
      },
      abortUpload: async () => undefined,
    };
    async function* rest(): AsyncGenerator<Uint8Array> {
      for (let left = length - 10; left > 0; left -= MIB) yield Buffer.alloc(Math.min(left, MIB));
    }
    const signal = new AbortController().signal;
    const wanted = {
      ...{ key: 'it', headBytes: 10, rest: rest(), head: async () => Buffer.alloc(10) },
      records: 'completions/',
    };
    await writeHeadLast({ s3, clock: { pause: async () => undefined }, signal }, sealer, wanted);
    const lengths = completed.map((number) => parts.get(number) ?? 0);
    expect(lengths.reduce((sum, one) => sum + one, 0)).toBe(
      parts.size === 0 ? 0 : sealer.sealedLength(length),
    );
    expect(new Set(lengths.slice(0, -1)).size).toBeLessThanOrEqual(1);
    expect(lengths.at(-1) ?? 0).toBeLessThanOrEqual(lengths[0] ?? 0);
  },
);
