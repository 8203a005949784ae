import { createHmac, hkdfSync } from 'node:crypto';
import { ConfigError, Secret } from '@space/broker-kit';
import { Decrypter, Encrypter, identityToRecipient } from 'age-encryption';
import { BackupError } from './errors.ts';
import { encryptPayload, NONCE_BYTES, payloadKey, TAG_BYTES } from './payload.ts';

export type Bytes = AsyncIterable<Uint8Array>;

/** Encrypts what is written to the destination, and decrypts what is read from it. */
export interface Sealer {
  /** Encrypts a known number of bytes; returns also the number of encrypted bytes. */
  seal(plain: Bytes, length: number): Promise<{ readonly bytes: Bytes; readonly length: number }>;
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
  const { size } = await encrypter.encrypt(ReadableStream.from<Uint8Array>(none()));
  return {
    seal: async (plain, length) => {
      // Only the library's header is used. The tag after it must not be revealed, since it was made with the key and
      // nonce of a payload of one chunk.
      const empty = await encrypter.encrypt(new Uint8Array());
      const head = empty.subarray(0, -TAG_BYTES);
      const fileKey = await decrypter.decryptHeader(head.subarray(0, -NONCE_BYTES));
      const key = payloadKey(fileKey, head.subarray(-NONCE_BYTES));
      return { bytes: following(head, encryptPayload(key, plain)), length: size(length) };
    },
    sealedLength: (length) => size(length),
    open: async (sealed) => {
      try {
        return await decrypter.decrypt(ReadableStream.from(sealed));
      } catch (error) {
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

async function* none(): AsyncGenerator<Uint8Array> {}
