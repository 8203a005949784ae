import { createHmac, hkdfSync } from 'node:crypto';
import { ConfigError, Secret } from '@space/broker-kit';
import { Decrypter, Encrypter, identityToRecipient } from 'age-encryption';
import { BackupError } from './errors.ts';
import { encryptPayload, NONCE_BYTES, payloadKey, TAG_BYTES } from './payload.ts';

export type Bytes = AsyncIterable<Uint8Array>;

/** Encrypts what is written to the destination, and opens what is read from it. */
export interface Sealer {
  /** Bytes of which the number is known before they come, encrypted, and how many these are. */
  seal(plain: Bytes, length: number): Promise<{ readonly bytes: Bytes; readonly length: number }>;
  /** How many bytes as many are when they are encrypted. */
  sealedLength(length: number): number;
  /** Rejects with BackupError where the identity is another or the beginning is damaged; throws later where the rest is. */
  open(sealed: Bytes): Promise<Bytes>;
  /** A name that tells nothing of the text to whoever has not the identity. */
  nameOf(text: string): string;
}

const IDENTITY = /^AGE-SECRET-KEY-1[A-Z0-9]{58}$/;

/** Reads the text of an identity file, as age-keygen writes it. @throws ConfigError */
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
    // The cause is left out: its message may quote the identity.
    throw new ConfigError(wrong);
  }
  const nameKey = Buffer.from(hkdfSync('sha256', identity.reveal(), '', 'space-backup/v1 names', 32));
  // The head of an age file for one recipient has always the same length.
  const { size } = await encrypter.encrypt(ReadableStream.from<Uint8Array>(none()));
  return {
    seal: async (plain, length) => {
      // The header is the library's. The tag behind it never leaves: it has the key and the nonce of a payload of one chunk.
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
