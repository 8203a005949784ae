import { createHash, hkdfSync } from 'node:crypto';
import type { Secret } from '@space/broker-kit';
import { EncryptJWT, errors, jwtDecrypt } from 'jose';
import type * as z from 'zod';

/** What a cookie of ours is for; one of one purpose is nothing for another. */
export type Purpose = 'session' | 'sign-in' | 'trip' | 'kept';

export interface SealOptions {
  readonly space: string;
  /** The first seals; all open. */
  readonly keys: () => readonly Secret<Buffer>[];
  readonly now: () => Date;
}

/** The most that a browser keeps of one cookie, its name and attributes aside. */
const LONGEST = 3_900;

/**
 * Values that a browser keeps for us and can neither read nor change: JWE, `dir` with A256GCM, under a key that is derived
 * for the Space and the purpose, with an end that is inside of what is sealed.
 */
export class Sealed {
  readonly #options: SealOptions;

  constructor(options: SealOptions) {
    this.#options = options;
  }

  /** Undefined when it would be longer than a cookie may be. */
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

  /** What was sealed for this purpose and has not ended; undefined for anything else. */
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
