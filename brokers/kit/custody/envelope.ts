import {
  createDecipheriv,
  createHash,
  createHmac,
  createSecretKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import { Secret } from '@space/contracts/secret';
import { CompactEncrypt } from 'jose';
import type { Keyring } from './keyring.ts';

/**
 * What is authenticated beside the secret: its owner, its destination, its generation. Keys are sorted, so that equal
 * contexts have equal bytes.
 */
export type EnvelopeContext = Readonly<Record<string, string | number | null>>;

/** A sealed secret as it is stored: JWE in compact form, `dir` with `A256GCM`, and the id of its key. */
export interface Envelope {
  readonly kid: string;
  readonly jwe: string;
}

type EnvelopeProblem = 'malformed' | 'unknown_key' | 'other_context' | 'tampered';

/** An envelope is not the one that the caller's row describes. Nothing was decrypted. */
export class EnvelopeError extends Error {
  readonly code: EnvelopeProblem;

  constructor(code: EnvelopeProblem, options?: { cause?: unknown }) {
    super(`envelope: ${code}`, options);
    this.name = 'EnvelopeError';
    this.code = code;
  }
}

/** Prevents that an envelope of one kind is opened as another, such as `objectstore.credential`. */
export type Purpose = `${string}.${string}`;

const ALGORITHMS = { alg: 'dir', enc: 'A256GCM' } as const;
const SALT = /^[A-Za-z0-9_-]{43}$/;
const MAX_LENGTH = 16 * 1024;

export interface Sealing {
  readonly purpose: Purpose;
  readonly context: EnvelopeContext;
  readonly plaintext: Uint8Array;
}

/** Seals with the primary key, from which a key for this envelope is derived with a random salt. */
export async function seal(
  keyring: Keyring,
  { purpose, context, plaintext }: Sealing,
  random: (bytes: number) => Buffer = randomBytes,
): Promise<Envelope> {
  const kid = keyring.primary;
  const salt = random(32).toString('base64url');
  const header = headerOf(purpose, kid, salt, context);
  const key = recordKey(keyring, kid, salt, header);
  try {
    const jwe = await new CompactEncrypt(plaintext).setProtectedHeader(header.value).encrypt(key);
    // If the library ever adds to the header, the rows could not be opened again.
    if (!jwe.startsWith(`${header.encoded}.`)) throw new Error('the header is not the one that was given');
    if (jwe.length > MAX_LENGTH) throw new Error('too large for an envelope');
    return { kid, jwe };
  } finally {
    key.fill(0);
  }
}

/**
 * Opens an envelope for exactly this purpose and context: the header is created again from them and compared byte for
 * byte before anything is decrypted. The caller overwrites the result. @throws EnvelopeError
 */
export async function open(
  keyring: Keyring,
  envelope: Envelope,
  about: Omit<Sealing, 'plaintext'>,
): Promise<Secret<Buffer>> {
  return openerOf(envelope, about).open(keyring);
}

/** An envelope that is opened often. It keeps the derived key, which cannot be read out, and never the plaintext. */
export interface Opener {
  /** Checks the tag each time. The caller overwrites the result. */
  open(keyring: Keyring): Secret<Buffer>;
}

/**
 * Does once what is the same for each opening: the check of the header, and the derivation of the key while the keyring
 * is unchanged.
 */
export function openerOf({ kid, jwe }: Envelope, { purpose, context }: Omit<Sealing, 'plaintext'>): Opener {
  const { header, salt } = checkedHeader({ kid, jwe }, { purpose, context });
  const parts = partsOf(jwe);
  let known: { readonly keyring: Keyring; readonly key: KeyObject } | undefined;
  return {
    open(keyring) {
      if (known?.keyring !== keyring) {
        known = undefined;
        if (!keyring.has(kid)) throw new EnvelopeError('unknown_key');
        const key = recordKey(keyring, kid, salt, header);
        known = { keyring, key: createSecretKey(key) };
        key.fill(0);
      }
      try {
        return new Secret(decrypt(parts, known.key));
      } catch (error) {
        throw new EnvelopeError('tampered', { cause: error });
      }
    },
  };
}

interface Parts {
  readonly associated: Buffer;
  readonly iv: Buffer;
  readonly ciphertext: Buffer;
  readonly tag: Buffer;
}

function partsOf(jwe: string): Parts {
  const [header = '', , iv = '', ciphertext = '', tag = ''] = jwe.split('.');
  const bytes = (part: string) => Buffer.from(part, 'base64url');
  return {
    associated: Buffer.from(header, 'ascii'),
    iv: bytes(iv),
    ciphertext: bytes(ciphertext),
    tag: bytes(tag),
  };
}

/**
 * RFC 7516 for the one form that `checkedHeader` accepts, synchronously: a value is opened for every request that
 * carries it, and a round trip through the thread pool would cost more than the rest.
 */
function decrypt({ associated, iv, ciphertext, tag }: Parts, key: KeyObject): Buffer {
  const decipher = createDecipheriv('aes-256-gcm', key, iv, { authTagLength: 16 });
  decipher.setAAD(associated).setAuthTag(tag);
  const plaintext = decipher.update(ciphertext);
  try {
    // In counter mode, final() only checks the tag.
    decipher.final();
    return plaintext;
  } catch (error) {
    plaintext.fill(0);
    throw error;
  }
}

/** Throws unless the envelope claims this purpose and context; decrypts nothing. */
export function checkEnvelope(envelope: Envelope, about: Omit<Sealing, 'plaintext'>): void {
  checkedHeader(envelope, about);
}

/** A MAC over parts, with a key of its own for the purpose; different lists of parts never have the same input. */
export function macOf(
  keyring: Keyring,
  kid: string,
  purpose: Purpose,
  parts: readonly (string | Uint8Array)[],
): Buffer {
  const key = keyring.derive(kid, Buffer.alloc(0), Buffer.from(`space-custody/v1 mac ${purpose}`));
  if (key === undefined) throw new EnvelopeError('unknown_key');
  const mac = createHmac('sha256', key);
  key.fill(0);
  for (const part of parts) {
    const bytes = typeof part === 'string' ? Buffer.from(part, 'utf8') : part;
    const length = Buffer.alloc(4);
    length.writeUInt32BE(bytes.length);
    mac.update(length).update(bytes);
  }
  return mac.digest();
}

interface Header {
  readonly value: { readonly alg: 'dir'; readonly enc: 'A256GCM'; readonly [name: string]: unknown };
  /** base64url, as in the envelope. */
  readonly encoded: string;
}

function headerOf(purpose: Purpose, kid: string, salt: string, context: EnvelopeContext): Header {
  const names = Object.keys(context).sort();
  const sorted = Object.fromEntries(names.map((name) => [name, context[name]]));
  const value = { ...ALGORITHMS, typ: 'space-custody', kid, salt, purpose, context: sorted };
  return { value, encoded: Buffer.from(JSON.stringify(value)).toString('base64url') };
}

function recordKey(keyring: Keyring, kid: string, salt: string, { encoded }: Header): Buffer {
  // The library limits the length of HKDF's info, so a digest stands for the header.
  const digest = createHash('sha256').update(encoded).digest();
  const info = Buffer.concat([Buffer.from('space-custody/v1 record '), digest]);
  const key = keyring.derive(kid, Buffer.from(salt, 'base64url'), info);
  if (key === undefined) throw new EnvelopeError('unknown_key');
  return key;
}

function checkedHeader(
  { kid, jwe }: Envelope,
  { purpose, context }: Omit<Sealing, 'plaintext'>,
): { header: Header; salt: string } {
  const parts = jwe.length <= MAX_LENGTH ? jwe.split('.') : [];
  const [encoded = '', wrapped, iv = '', ciphertext = '', tag = ''] = parts;
  const whole = parts.length === 5 && wrapped === '' && iv.length === 16 && tag.length === 22;
  // Base64url with other spare bits, padding or alphabet decodes to the same bytes, but seal() never writes it.
  if (!whole || ![encoded, iv, ciphertext, tag].every(isCanonical)) throw new EnvelopeError('malformed');
  const salt = saltOf(encoded);
  const header = headerOf(purpose, kid, salt, context);
  if (header.encoded !== encoded) throw new EnvelopeError('other_context');
  return { header, salt };
}

function saltOf(encoded: string): string {
  let salt: unknown;
  try {
    salt = (JSON.parse(Buffer.from(encoded, 'base64url').toString()) as { salt?: unknown } | null)?.salt;
  } catch (error) {
    throw new EnvelopeError('malformed', { cause: error });
  }
  if (typeof salt !== 'string' || !SALT.test(salt)) throw new EnvelopeError('malformed');
  return salt;
}

function isCanonical(text: string): boolean {
  return Buffer.from(text, 'base64url').toString('base64url') === text;
}
