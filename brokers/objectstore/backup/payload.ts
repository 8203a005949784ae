/** The payload of an age file (age-encryption.org/v1, STREAM), encrypted by OpenSSL: the library does it in JavaScript, at a ninth of the speed. */
import { createCipheriv, hkdfSync } from 'node:crypto';

export const NONCE_BYTES = 16;
export const TAG_BYTES = 16;
const CHUNK_BYTES = 64 * 1024;

/** Derives the payload key of a file from its file key and the nonce after its header. */
export const payloadKey = (fileKey: Uint8Array, nonce: Uint8Array): Uint8Array =>
  new Uint8Array(hkdfSync('sha256', fileKey, nonce, 'payload', 32));

/** Encrypts what follows header and nonce. A key must not be used twice, since chunks are counted from zero. */
export async function* encryptPayload(
  key: Uint8Array,
  plain: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let used = 0;
  let number = 0;
  for await (const piece of plain)
    for (let from = 0; from < piece.length; ) {
      // A full chunk is kept until more data arrives, since the last one is marked.
      if (used === CHUNK_BYTES) {
        yield encryptChunk(key, number, false, chunk);
        number += 1;
        used = 0;
      }
      const taken = piece.subarray(from, from + CHUNK_BYTES - used);
      chunk.set(taken, used);
      used += taken.length;
      from += taken.length;
    }
  yield encryptChunk(key, number, true, chunk.subarray(0, used));
}

function encryptChunk(key: Uint8Array, number: number, isLast: boolean, plain: Uint8Array): Buffer {
  // The counter has eleven bytes; four suffice for more than the largest object in S3.
  const nonce = Buffer.alloc(12);
  nonce.writeUInt32BE(number, 7);
  nonce.writeUInt8(isLast ? 1 : 0, 11);
  const cipher = createCipheriv('chacha20-poly1305', key, nonce, { authTagLength: TAG_BYTES });
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}
