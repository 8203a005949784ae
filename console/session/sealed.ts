import { createHash, hkdfSync } from 'node:crypto';
import type { Secret } from '@space/broker-kit';
import { EncryptJWT, errors, jwtDecrypt } from 'jose';
import type * as z from 'zod';

/** The purpose of a cookie; a cookie is valid only for its own purpose. */
export type Purpose = 'session' | 'sign-in' | 'trip' | 'kept';

export interface SealOptions {
  readonly space: string;
  /** The first key seals; all of them open. */
  readonly keys: () => readonly Secret<Buffer>[];
  readonly now: () => Date;
}

/** The most characters of a cookie's value. */
const LONGEST = 3_900;

/**
 * Values that a browser keeps and can neither read nor change: JWE, `dir` with A256GCM, with a key that is derived for
 * the Space and the purpose, and with an expiry inside.
 */
export class Sealed {
  readonly #options: SealOptions;

  constructor(options: SealOptions) {
    this.#options = options;
  }

  /** Undefined if it would be longer than a cookie may be. */
  async seal(purpose: Purpose, value: Record<string, unknown>, seconds: number): Promise<string | undefined> {
    const { space, keys, now } = this.#options;
    const [key] = keys();
    if (key === undefined) throw new Error('no key to seal with');
    const at = Math.floor(now().getTime() / 1000);
    const text = await new EncryptJWT({ value })
      .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: nameOf(key) })
      .setIssuedAt(at)
      .setExpirationTime(at + seconds)
      .setAudience(audience(space, purpose))
      .encrypt(derive(key, space, purpose));
    return text.length > LONGEST ? undefined : text;
  }

  /** The value, if it was sealed for this purpose and has not expired. */
  async open<T>(purpose: Purpose, text: string, schema: z.ZodType<T>): Promise<T | undefined> {
    const { space, keys, now } = this.#options;
    if (text.length > LONGEST) return undefined;
    try {
      const { payload } = await jwtDecrypt(
        text,
        ({ kid }) => {
          const key = keys().find((one) => nameOf(one) === kid);
          if (key === undefined) throw new errors.JOSEError('no such key');
          return derive(key, space, purpose);
        },
        {
          keyManagementAlgorithms: ['dir'],
          contentEncryptionAlgorithms: ['A256GCM'],
          audience: audience(space, purpose),
          requiredClaims: ['iat', 'exp'],
          currentDate: now(),
          clockTolerance: 0,
        },
      );
      return schema.safeParse(payload['value']).data;
    } catch (error) {
      if (error instanceof errors.JOSEError) return undefined;
      throw error;
    }
  }
}

const audience = (space: string, purpose: Purpose) => `space-console/${space}/${purpose}`;

const derive = (key: Secret<Buffer>, space: string, purpose: Purpose): Uint8Array =>
  new Uint8Array(hkdfSync('sha256', key.reveal(), '', audience(space, purpose), 32));

const nameOf = (key: Secret<Buffer>): string =>
  createHash('sha256').update('space-console kid\0').update(key.reveal()).digest('hex').slice(0, 16);
