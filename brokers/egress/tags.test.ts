import { randomBytes } from 'node:crypto';
import { parseKeyring } from '@space/broker-kit/custody';
import { describe, expect, it } from 'vitest';
import { createCustody } from './custody.ts';

const OWNER = { capsule: 'home', app: 'ledger', uid: 'u', input: 'key', definition: 'd' };
const [K1, K2] = [0, 1].map(() => randomBytes(32).toString('base64url'));
const ringOf = (primary: string, keys: object) => parseKeyring(JSON.stringify({ primary, keys }));
const first = ringOf('k1', { k1: K1 });
const tags = createCustody('space', () => first);

describe('an entity tag', () => {
  it.each(['"a"', '', '"\u00e9 %2F"', '"'.repeat(3_000)])('%j is restored', (tag) => {
    expect(tags.openTag(OWNER, tags.sealTag(OWNER, tag))).toBe(tag);
  });

  it('is the same on every replica for the same tag of the host', () => {
    const other = createCustody('space', () => ringOf('k1', { k1: K1 }));
    expect(other.sealTag(OWNER, '"a"')).toBe(tags.sealTag(OWNER, '"a"'));
    expect(other.sealTag(OWNER, '"b"')).not.toBe(tags.sealTag(OWNER, '"a"'));
  });

  it('can be opened as long as its key is in the ring', () => {
    const sealed = tags.sealTag(OWNER, '"a"');
    const both = ringOf('k2', { k1: K1, k2: K2 });
    const next = createCustody('space', () => both);
    expect(next.openTag(OWNER, sealed)).toBe('"a"');
    expect(next.sealTag(OWNER, '"a"')).not.toBe(sealed);
    const last = ringOf('k2', { k2: K2 });
    expect(createCustody('space', () => last).openTag(OWNER, sealed)).toBeUndefined();
  });

  it.each(['capsule', 'app', 'uid', 'input', 'definition'])('cannot be opened for another %s', (field) => {
    const other = { ...OWNER, [field]: 'other' };
    expect(tags.openTag(other, tags.sealTag(OWNER, '"a"'))).toBeUndefined();
    expect(tags.sealTag(other, '"a"')).not.toBe(tags.sealTag(OWNER, '"a"'));
    expect(createCustody('other', () => first).openTag(OWNER, tags.sealTag(OWNER, '"a"'))).toBeUndefined();
  });

  it('cannot be opened with other letters', () => {
    const sealed = tags.sealTag(OWNER, '"a"');
    for (let at = 0; at < sealed.length - 1; at += 1) {
      const changed = sealed.slice(0, at) + (sealed[at] === 'A' ? 'B' : 'A') + sealed.slice(at + 1);
      expect(tags.openTag(OWNER, changed), changed).toBeUndefined();
    }
    for (const text of ['', 'k1.', 'k1.AAAA', `k3.${'A'.repeat(30)}`, `k1.${'A'.repeat(30)}`])
      expect(tags.openTag(OWNER, text)).toBeUndefined();
  });
});
