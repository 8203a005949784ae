/** The payload of an age file (age-encryption.org/v1, STREAM), encrypted and decrypted by OpenSSL: the library does it in JavaScript, at a ninth of the speed. */
import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto';

export const NONCE_BYTES = 16;
export const TAG_BYTES = 16;
const CIPHER = 'chacha20-poly1305';
export const CHUNK_BYTES = 64 * 1024;

/** Derives the payload key of a file from its file key and the nonce after its header. */
export const payloadKey = (fileKey: Uint8Array, nonce: Uint8Array): Uint8Array =>
  new Uint8Array(hkdfSync('sha256', fileKey, nonce, 'payload', 32));

/**
 * Encrypts what follows header and nonce, or the rest of it from a chunk on. No chunk may be encrypted twice with a key, since
 * their numbers are the nonces.
 */
export async function* encryptPayload(
  key: Uint8Array,
  plain: AsyncIterable<Uint8Array>,
  from = 0,
): AsyncGenerator<Uint8Array> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES);
  let used = 0;
  let number = from;
  for await (const piece of plain)
    for (let at = 0; at < piece.length; ) {
      // A full chunk is kept until more data arrives, since the last one is marked.
      if (used === CHUNK_BYTES) {
        yield encryptChunk(key, number, false, chunk);
        number += 1;
        used = 0;
      }
      const taken = piece.subarray(at, at + CHUNK_BYTES - used);
      chunk.set(taken, used);
      used += taken.length;
      at += taken.length;
    }
  yield encryptChunk(key, number, true, chunk.subarray(0, used));
}

/** Encrypts the first chunks, which are whole, of a payload that goes on after them. */
export function encryptBeginning(key: Uint8Array, plain: Uint8Array): Buffer {
  const chunks: Buffer[] = [];
  for (let at = 0; at < plain.length; at += CHUNK_BYTES)
    chunks.push(encryptChunk(key, chunks.length, false, plain.subarray(at, at + CHUNK_BYTES)));
  return Buffer.concat(chunks);
}

/** Decrypts what follows header and nonce. Throws if anything is changed, missing or added, before it yields that. */
export async function* decryptPayload(
  key: Uint8Array,
  sealed: AsyncIterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  const chunk = Buffer.allocUnsafe(CHUNK_BYTES + TAG_BYTES);
  let used = 0;
  let number = 0;
  for await (const piece of sealed)
    for (let at = 0; at < piece.length; ) {
      // A full chunk is kept until more data arrives, since the last one is marked.
      if (used === chunk.length) {
        yield decryptChunk(key, number, false, chunk);
        number += 1;
        used = 0;
      }
      const taken = piece.subarray(at, at + chunk.length - used);
      chunk.set(taken, used);
      used += taken.length;
      at += taken.length;
    }
  const last = decryptChunk(key, number, true, chunk.subarray(0, used));
  if (last.length > 0) yield last;
  else if (number > 0) throw new Error('the last chunk is empty');
}

function encryptChunk(key: Uint8Array, number: number, isLast: boolean, plain: Uint8Array): Buffer {
  const cipher = createCipheriv(CIPHER, key, nonceOf(number, isLast), { authTagLength: TAG_BYTES });
  return Buffer.concat([cipher.update(plain), cipher.final(), cipher.getAuthTag()]);
}

function decryptChunk(key: Uint8Array, number: number, isLast: boolean, sealed: Uint8Array): Buffer {
  if (sealed.length < TAG_BYTES) throw new Error('a chunk is cut short');
  const decipher = createDecipheriv(CIPHER, key, nonceOf(number, isLast), { authTagLength: TAG_BYTES });
  decipher.setAuthTag(sealed.subarray(-TAG_BYTES));
  return Buffer.concat([decipher.update(sealed.subarray(0, -TAG_BYTES)), decipher.final()]);
}

/** The counter of a chunk has eleven bytes; four suffice for more than the largest object in S3. */
function nonceOf(number: number, isLast: boolean): Buffer {
  const nonce = Buffer.alloc(12);
  nonce.writeUInt32BE(number, 7);
  nonce.writeUInt8(isLast ? 1 : 0, 11);
  return nonce;
}
