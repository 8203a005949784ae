import { createCipheriv, createDecipheriv, createHash, hkdfSync, randomBytes } from 'node:crypto';
import type { Secret } from '@space/broker-kit';

/** The broker's data keys, 32 bytes each; the first one seals, all of them open. They are the same in every replica. */
export type DataKeys = readonly [Secret<Buffer>, ...Secret<Buffer>[]];

/** Seals texts that callers return later, so that only the broker can read them, and only for the same owner. */
export interface Cursors {
  /** `owner` is authenticated but not contained in the token: for another owner it does not open. */
  seal(owner: readonly string[], content: string): string;
  /** The content; undefined for any token that was not sealed for this owner. */
  open(owner: readonly string[], token: string): string | undefined;
}

const KEY_ID = 4;
const SALT = 16;
const TAG = 16;
const TOKEN = /^[A-Za-z0-9_-]{48,4096}$/;
/** A key is used for one token only, so its nonce may be constant. */
const NONCE = Buffer.alloc(12);

export function createCursors(keys: DataKeys, purpose: string): Cursors {
  const byId = new Map(keys.map((key) => [keyId(key).toString('hex'), key]));
  const [current] = keys;
  const derive = (key: Secret<Buffer>, salt: Buffer) =>
    Buffer.from(hkdfSync('sha256', key.reveal(), salt, `space-object-${purpose}/v1`, 32));

  return {
    seal: (owner, content) => {
      const salt = randomBytes(SALT);
      const cipher = createCipheriv('aes-256-gcm', derive(current, salt), NONCE, { authTagLength: TAG });
      cipher.setAAD(associated(owner));
      const sealed = Buffer.concat([cipher.update(content, 'utf8'), cipher.final()]);
      return Buffer.concat([keyId(current), salt, sealed, cipher.getAuthTag()]).toString('base64url');
    },
    open: (owner, token) => {
      if (!TOKEN.test(token)) return undefined;
      const bytes = Buffer.from(token, 'base64url');
      const key = byId.get(bytes.toString('hex', 0, KEY_ID));
      if (key === undefined || bytes.length < KEY_ID + SALT + TAG) return undefined;
      const salt = bytes.subarray(KEY_ID, KEY_ID + SALT);
      const decipher = createDecipheriv('aes-256-gcm', derive(key, salt), NONCE, { authTagLength: TAG });
      decipher.setAAD(associated(owner));
      decipher.setAuthTag(bytes.subarray(-TAG));
      try {
        const content = decipher.update(bytes.subarray(KEY_ID + SALT, -TAG));
        return Buffer.concat([content, decipher.final()]).toString('utf8');
      } catch {
        return undefined;
      }
    },
  };
}

/** Identifies the key without revealing anything of it. */
function keyId(key: Secret<Buffer>): Buffer {
  return createHash('sha256')
    .update('space-data-key-id/v1')
    .update(key.reveal())
    .digest()
    .subarray(0, KEY_ID);
}

function associated(owner: readonly string[]): Buffer {
  return Buffer.concat(
    owner.flatMap((part) => {
      const length = Buffer.alloc(4);
      length.writeUInt32BE(Buffer.byteLength(part));
      return [length, Buffer.from(part, 'utf8')];
    }),
  );
}
