import { createHash } from 'node:crypto';
import { crc32 } from 'node:zlib';

/** A checksum that is being computed. */
export interface Checksum {
  update(data: Buffer): void;
  /** The value of the header. */
  base64(): string;
}

/** The algorithms of `x-amz-checksum-…`. */
const ALGORITHMS: Readonly<Record<string, () => Checksum>> = {
  crc32: () => {
    let value = 0;
    return {
      update: (data) => {
        value = crc32(data, value);
      },
      base64: () => bigEndian(value),
    };
  },
  crc32c: crc32cChecksum,
  crc64nvme: crc64nvmeChecksum,
  sha1: () => hashed('sha1'),
  sha256: () => hashed('sha256'),
  md5: () => hashed('md5'),
};

/** Undefined for an unknown algorithm. */
export function createChecksum(algorithm: string): Checksum | undefined {
  return Object.hasOwn(ALGORITHMS, algorithm) ? ALGORITHMS[algorithm]?.() : undefined;
}

function hashed(algorithm: string): Checksum {
  const hash = createHash(algorithm);
  return { update: (data) => void hash.update(data), base64: () => hash.digest('base64') };
}

function bigEndian(...words: number[]): string {
  const bytes = Buffer.alloc(4 * words.length);
  for (const [i, word] of words.entries()) bytes.writeUInt32BE(word >>> 0, 4 * i);
  return bytes.toString('base64');
}

const CRC32C = Uint32Array.from({ length: 256 }, (_, byte) => {
  let value = byte;
  for (let bit = 0; bit < 8; bit += 1) value = value & 1 ? (value >>> 1) ^ 0x82f63b78 : value >>> 1;
  return value >>> 0;
});

function crc32cChecksum(): Checksum {
  let value = 0xffffffff;
  return {
    update: (data) => {
      let crc = value;
      for (let i = 0; i < data.length; i += 1)
        crc = (CRC32C[(crc ^ (data[i] ?? 0)) & 0xff] ?? 0) ^ (crc >>> 8);
      value = crc >>> 0;
    },
    base64: () => bigEndian(~value),
  };
}

/** 64 bits in two halves, since BigInt would be a hundred times slower. */
const CRC64 = { high: new Uint32Array(256), low: new Uint32Array(256) };
for (let byte = 0; byte < 256; byte += 1) {
  let high = 0;
  let low = byte;
  for (let bit = 0; bit < 8; bit += 1) {
    const odd = low & 1;
    low = (low >>> 1) | (high << 31);
    high >>>= 1;
    if (odd === 1) {
      high ^= 0x9a6c9329;
      low ^= 0xac4bc9b5;
    }
  }
  CRC64.high[byte] = high >>> 0;
  CRC64.low[byte] = low >>> 0;
}

function crc64nvmeChecksum(): Checksum {
  let [high, low] = [0xffffffff, 0xffffffff];
  const { high: highs, low: lows } = CRC64;
  return {
    update: (data) => {
      // Local variables stay in registers, unlike those shared with a closure, which takes an eighth of the time.
      let [h, l] = [high | 0, low | 0];
      for (let i = 0; i < data.length; i += 1) {
        const index = (l ^ (data[i] as number)) & 0xff;
        l = ((l >>> 8) | (h << 24)) ^ (lows[index] as number);
        h = (h >>> 8) ^ (highs[index] as number);
      }
      [high, low] = [h, l];
    },
    base64: () => bigEndian(~high, ~low),
  };
}
