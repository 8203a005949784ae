import { createCipheriv, createDecipheriv, timingSafeEqual } from 'node:crypto';
import { type Keyring, macOf } from '@space/broker-kit/custody';
import type { Owner } from './custody.ts';

/** Entity tags of hosts as callers see them: without a key they tell nothing of the answer that they were made over. */
export interface TagCustody {
  /** The same for the same tag and owner, on every replica; visible ASCII without quotes. */
  sealTag(owner: Owner, tag: string): string;
  /** Undefined for what was not sealed for this owner, or under a key that is gone. */
  openTag(owner: Owner, text: string): string | undefined;
}

const SEALED = /^([a-z0-9-]{1,32})\.([A-Za-z0-9_-]{22,})$/;
const DIGEST_BYTES = 16;
/** Each tag has a key of its own, made of its digest. */
const NO_IV = Buffer.alloc(16);

/** Sealed as in RFC 5297: the MAC of the tag is what the tag is encrypted by, and what proves it afterwards. */
export function createTagCustody(space: string, keyring: () => Keyring): TagCustody {
  const about = ({ capsule, app, uid, input, definition }: Owner) => [
    space,
    capsule,
    app,
    uid,
    input,
    definition,
  ];
  const digestOf = (ring: Keyring, kid: string, owner: Owner, tag: Uint8Array) =>
    macOf(ring, kid, 'egress.entity-tag', [...about(owner), tag]).subarray(0, DIGEST_BYTES);
  const keyOf = (ring: Keyring, kid: string, owner: Owner, digest: Uint8Array) =>
    macOf(ring, kid, 'egress.entity-tag-key', [...about(owner), digest]);

  return {
    sealTag(owner, tag) {
      const ring = keyring();
      const kid = ring.primary;
      const bytes = Buffer.from(tag, 'latin1');
      const digest = digestOf(ring, kid, owner, bytes);
      const key = keyOf(ring, kid, owner, digest);
      const cipher = createCipheriv('aes-256-ctr', key, NO_IV);
      key.fill(0);
      return `${kid}.${Buffer.concat([digest, cipher.update(bytes), cipher.final()]).toString('base64url')}`;
    },
    openTag(owner, text) {
      const ring = keyring();
      const [, kid = '', encoded = ''] = SEALED.exec(text) ?? [];
      if (!ring.has(kid)) return undefined;
      const sealed = Buffer.from(encoded, 'base64url');
      const digest = sealed.subarray(0, DIGEST_BYTES);
      const key = keyOf(ring, kid, owner, digest);
      const decipher = createDecipheriv('aes-256-ctr', key, NO_IV);
      key.fill(0);
      const bytes = Buffer.concat([decipher.update(sealed.subarray(DIGEST_BYTES)), decipher.final()]);
      const isRight = timingSafeEqual(digest, digestOf(ring, kid, owner, bytes));
      return isRight ? bytes.toString('latin1') : undefined;
    },
  };
}
