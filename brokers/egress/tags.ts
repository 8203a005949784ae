import { createCipheriv, createDecipheriv, timingSafeEqual } from 'node:crypto';
import { type Keyring, macOf } from '@space/broker-kit/custody';

/** The owner of a tag, in as many words as it takes. */
type Whose = readonly string[];

/** Entity tags of hosts as callers see them: without a key they reveal nothing of the answer that they belong to. */
export interface Tags {
  seal(whose: Whose, tag: string): string;
  open(whose: Whose, text: string): string | undefined;
}

const SEALED = /^([a-z0-9-]{1,32})\.([A-Za-z0-9_-]{22,})$/;
const DIGEST_BYTES = 16;
/** Each tag has its own key, derived from its digest. */
const NO_IV = Buffer.alloc(16);

/**
 * Sealed in the manner of RFC 5297: the MAC of the tag determines the key of its encryption, and proves the tag when it
 * is opened.
 */
export function createTags(keyring: () => Keyring): Tags {
  const digestOf = (ring: Keyring, kid: string, whose: Whose, tag: Uint8Array) =>
    macOf(ring, kid, 'egress.entity-tag', [...whose, tag]).subarray(0, DIGEST_BYTES);
  const keyOf = (ring: Keyring, kid: string, whose: Whose, digest: Uint8Array) =>
    macOf(ring, kid, 'egress.entity-tag-key', [...whose, digest]);

  return {
    seal(whose, tag) {
      const ring = keyring();
      const kid = ring.primary;
      const bytes = Buffer.from(tag, 'latin1');
      const digest = digestOf(ring, kid, whose, bytes);
      const key = keyOf(ring, kid, whose, digest);
      const cipher = createCipheriv('aes-256-ctr', key, NO_IV);
      key.fill(0);
      return `${kid}.${Buffer.concat([digest, cipher.update(bytes), cipher.final()]).toString('base64url')}`;
    },
    open(whose, text) {
      const ring = keyring();
      const [, kid = '', encoded = ''] = SEALED.exec(text) ?? [];
      if (!ring.has(kid)) return undefined;
      const sealed = Buffer.from(encoded, 'base64url');
      const digest = sealed.subarray(0, DIGEST_BYTES);
      const key = keyOf(ring, kid, whose, digest);
      const decipher = createDecipheriv('aes-256-ctr', key, NO_IV);
      key.fill(0);
      const bytes = Buffer.concat([decipher.update(sealed.subarray(DIGEST_BYTES)), decipher.final()]);
      const isRight = timingSafeEqual(digest, digestOf(ring, kid, whose, bytes));
      return isRight ? bytes.toString('latin1') : undefined;
    },
  };
}
