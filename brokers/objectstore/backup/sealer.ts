import { createHmac, hkdfSync } from 'node:crypto';
import { ConfigError, Secret } from '@space/broker-kit';
import { Decrypter, Encrypter, identityToRecipient } from 'age-encryption';
import { BackupError } from './errors.ts';
import {
  CHUNK_BYTES,
  decryptPayload,
  encryptBeginning,
  encryptPayload,
  NONCE_BYTES,
  payloadKey,
  TAG_BYTES,
} from './payload.ts';

export type Bytes = AsyncIterable<Uint8Array>;

/** Encrypts what is written to the destination, and decrypts what is read from it. */
export interface Sealer {
  /** Encrypts a known number of bytes; returns also the number of encrypted bytes. */
  seal(plain: Bytes, length: number): Promise<{ readonly bytes: Bytes; readonly length: number }>;
  /** Encrypts in two parts, of which the second is encrypted first. */
  sealInParts(): Promise<SealInParts>;
  /** The number of encrypted bytes. */
  sealedLength(length: number): number;
  /**
   * Decrypts. Rejects with BackupError if the identity differs or the beginning is damaged; the stream throws later if
   * the rest is.
   */
  open(sealed: Bytes): Promise<Bytes>;
  /** A name that reveals nothing of the text without the identity. */
  nameOf(text: string): string;
}

interface SealInParts {
  /** The number of encrypted bytes of the first part. */
  firstLength(chunks: number): number;
  /** Encrypts the first part, once. Its length is `chunks` times `CHUNK_BYTES`. */
  first(plain: Uint8Array): Buffer;
  /** Encrypts what follows that many chunks, once; it has at least one byte. */
  rest(plain: Bytes, chunks: number): Bytes;
}

const IDENTITY = /^AGE-SECRET-KEY-1[A-Z0-9]{58}$/;

/** Reads an identity file as age-keygen writes it. @throws ConfigError */
export async function createSealer(file: string): Promise<Sealer> {
  const lines = file
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '' && !line.startsWith('#'));
  const [text = ''] = lines;
  const wrong = 'BACKUP_IDENTITY_FILE must hold one age identity, AGE-SECRET-KEY-1…, as age-keygen writes it';
  if (lines.length !== 1 || !IDENTITY.test(text)) throw new ConfigError(wrong);
  const identity = new Secret(text);
  const encrypter = new Encrypter();
  const decrypter = new Decrypter();
  try {
    encrypter.addRecipient(await identityToRecipient(identity.reveal()));
    decrypter.addIdentity(identity.reveal());
  } catch {
    // The cause is left out, since its message may quote the identity.
    throw new ConfigError(wrong);
  }
  const nameKey = Buffer.from(hkdfSync('sha256', identity.reveal(), '', 'space-backup/v1 names', 32));
  // The header of an age file for one recipient always has the same length.
  const headBytes = (await encrypter.encrypt(new Uint8Array())).length - TAG_BYTES;
  const { size } = await encrypter.encrypt(ReadableStream.from<Uint8Array>(none()));
  const begin = async () => {
    // Only the library's header is used. The tag after it must not be revealed, since it was made with the key and
    // nonce of a payload of one chunk.
    const empty = await encrypter.encrypt(new Uint8Array());
    const head = empty.subarray(0, -TAG_BYTES);
    const fileKey = await decrypter.decryptHeader(head.subarray(0, -NONCE_BYTES));
    return { head, key: payloadKey(fileKey, head.subarray(-NONCE_BYTES)) };
  };
  return {
    seal: async (plain, length) => {
      const { head, key } = await begin();
      return { bytes: following(head, encryptPayload(key, plain)), length: size(length) };
    },
    sealInParts: async () => {
      const { head, key } = await begin();
      return {
        firstLength: (chunks) => head.length + chunks * (CHUNK_BYTES + TAG_BYTES),
        first: (plain) => Buffer.concat([head, encryptBeginning(key, plain)]),
        rest: (plain, chunks) => encryptPayload(key, plain, chunks),
      };
    },
    sealedLength: (length) => size(length),
    open: async (sealed) => {
      const source = sealed[Symbol.asyncIterator]();
      try {
        const { first, rest } = await divided(source, headBytes);
        const fileKey = await decrypter.decryptHeader(first.subarray(0, -NONCE_BYTES));
        const key = payloadKey(fileKey, first.subarray(-NONCE_BYTES));
        return decryptPayload(key, going(source, rest));
      } catch (error) {
        await source.return?.();
        throw new BackupError('it cannot be opened with this identity, or its beginning is damaged', {
          cause: error,
        });
      }
    },
    nameOf: (name) => createHmac('sha256', nameKey).update(name).digest('hex'),
  };
}

async function* following(head: Uint8Array, rest: Bytes): AsyncGenerator<Uint8Array> {
  yield head;
  yield* rest;
}

/** Reads so many bytes of a source, and returns what came with them. */
async function divided(source: AsyncIterator<Uint8Array>, length: number) {
  let read = Buffer.alloc(0);
  while (read.length < length) {
    const next = await source.next();
    if (next.done === true) throw new Error('the header is cut short');
    read = Buffer.concat([read, next.value]);
  }
  return { first: read.subarray(0, length), rest: read.subarray(length) };
}

/** Goes on with a source after some of its bytes, and ends it. */
export async function* going(
  source: AsyncIterator<Uint8Array>,
  first: Uint8Array,
): AsyncGenerator<Uint8Array> {
  try {
    yield first;
    for (let next = await source.next(); next.done !== true; next = await source.next()) yield next.value;
  } finally {
    await source.return?.();
  }
}

async function* none(): AsyncGenerator<Uint8Array> {}
