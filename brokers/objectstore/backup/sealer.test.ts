import { ReadableStream } from 'node:stream/web';
import { Decrypter, generateX25519Identity } from 'age-encryption';
import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { decryptPayload, encryptBeginning, encryptPayload } from './payload.ts';
import { createSealer, type Sealer } from './sealer.ts';

const KIB = 1024;
/** A chunk of age's payload. */
const CHUNK = 64 * KIB;

/** Bytes that differ from place to place, so that no chunk passes for another. */
function bytesOf(length: number): Buffer {
  const bytes = Buffer.alloc(length);
  for (let at = 0; at + 4 <= length; at += 4) bytes.writeUInt32LE(at, at);
  return bytes;
}

async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  for (let at = 0; at < bytes.length; at += size) yield bytes.subarray(at, at + size);
}

describe('what a backup writes is an age file', () => {
  let identity: string;
  let sealer: Sealer;

  beforeAll(async () => {
    identity = await generateX25519Identity();
    sealer = await createSealer(identity);
  });

  const sealed = async (plain: Buffer, pieces: number): Promise<Buffer> => {
    const { bytes, length } = await sealer.seal(inPieces(plain, pieces), plain.length);
    const whole = Buffer.concat(await Array.fromAsync(bytes));
    expect(whole.length).toBe(length);
    expect(whole.length).toBe(sealer.sealedLength(plain.length));
    return whole;
  };
  const opened = async (file: Uint8Array): Promise<Buffer> => {
    const decrypter = new Decrypter();
    decrypter.addIdentity(identity);
    return Buffer.from(await decrypter.decrypt(file));
  };

  it('which age opens, of every length and in whatever pieces the bytes come', async () => {
    const around = fc
      .tuple(fc.integer({ min: 0, max: 4 }), fc.integer({ min: -2, max: 2 }))
      .map(([chunks, beside]) => Math.max(0, chunks * CHUNK + beside));
    const lengths = fc.oneof(around, fc.integer({ min: 0, max: 5 * CHUNK }));
    const pieces = fc.oneof(
      fc.constantFrom(CHUNK - 1, CHUNK, CHUNK + 1),
      fc.integer({ min: 1_000, max: 5 * CHUNK }),
    );
    await fc.assert(
      fc.asyncProperty(lengths, pieces, async (length, size) => {
        const plain = bytesOf(length);
        const file = await sealed(plain, size);
        expect((await opened(file)).equals(plain)).toBe(true);
        const restored = await Array.fromAsync(await sealer.open(inPieces(file, size)));
        expect(Buffer.concat(restored).equals(plain)).toBe(true);
      }),
    );
  });

  it('which differs each time, so that two contents with the same bytes have different chunks', async () => {
    const plain = bytesOf(2 * CHUNK);
    const [one, other] = [await sealed(plain, CHUNK), await sealed(plain, CHUNK)];
    for (let at = 0; at + 16 <= 2 * CHUNK; at += 16) {
      const chunk = one.subarray(-(at + 16), one.length - at);
      expect(other.includes(chunk)).toBe(false);
    }
  });

  it('which no restore opens if a byte is changed, a chunk is missing or two are swapped', async () => {
    const file = await sealed(bytesOf(3 * CHUNK), CHUNK);
    const stored = CHUNK + 16;
    const payload = file.length - 3 * stored;
    const chunk = (n: number) => file.subarray(payload + n * stored, payload + (n + 1) * stored);
    const head = file.subarray(0, payload);
    const damaged = {
      exchanged: Buffer.concat([head, chunk(1), chunk(0), chunk(2)]),
      'without the first': Buffer.concat([head, chunk(1), chunk(2)]),
      'without the last': file.subarray(0, -stored),
      'twice the last': Buffer.concat([file, chunk(2)]),
      'cut in a chunk': file.subarray(0, -1),
      'without a payload': head,
    };
    for (const at of [10, payload - 1, payload, payload + stored, file.length - 1]) {
      const other = Buffer.from(file);
      other.writeUInt8(other.readUInt8(at) ^ 1, at);
      Object.assign(damaged, { [`another byte at ${at}`]: other });
    }
    for (const [what, bytes] of Object.entries(damaged)) {
      const restored = async () => Array.fromAsync(await sealer.open(ReadableStream.from([bytes])));
      await expect(restored(), what).rejects.toThrow();
    }
  });

  it('which never ends with an empty chunk, unless it is empty', async () => {
    const key = Buffer.alloc(32, 7);
    const endless = async function* () {
      yield encryptBeginning(key, bytesOf(CHUNK));
      yield* encryptPayload(key, inPieces(Buffer.alloc(0), 1), 1);
    };
    await expect(Array.fromAsync(decryptPayload(key, endless()))).rejects.toThrow('empty');
    const empty = decryptPayload(key, encryptPayload(key, inPieces(Buffer.alloc(0), 1)));
    expect(await Array.fromAsync(empty)).toEqual([]);
  });
});
