import { randomBytes } from 'node:crypto';
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { parseKeyring, watchKeyring } from './keyring.ts';

const key = () => randomBytes(32).toString('base64url');
const [k1, k2] = [key(), key()];
const many = (count: number) =>
  Object.fromEntries(Array.from({ length: count }, (_, index) => [`k${index}`, key()]));
const text = (primary: string, keys: Record<string, string>) => JSON.stringify({ primary, keys });

describe('a keyring file', () => {
  it('derives keys that differ by id, salt and purpose, and never returns the key itself', () => {
    const ring = parseKeyring(text('k2', { k1, k2 }));
    const derived = [
      ring.derive('k1', Buffer.from('a'), Buffer.from('x')),
      ring.derive('k2', Buffer.from('a'), Buffer.from('x')),
      ring.derive('k1', Buffer.from('b'), Buffer.from('x')),
      ring.derive('k1', Buffer.from('a'), Buffer.from('y')),
    ].map((bytes) => bytes?.toString('base64url'));
    expect(ring.primary).toBe('k2');
    expect(new Set([...derived, k1, k2]).size).toBe(6);
    expect(ring.derive('k3', Buffer.alloc(0), Buffer.alloc(0))).toBeUndefined();
    expect(JSON.stringify(ring)).not.toContain(k1);
  });

  it.each<[string, string, RegExp]>([
    ['empty', '', /^not JSON$/],
    ['truncated', text('k1', { k1 }).slice(0, -2), /^not JSON$/],
    ['a list', '[]', /^not a JSON object$/],
    ['nothing', 'null', /^not a JSON object$/],
    ['a number', '5', /^not a JSON object$/],
    ['with a list of keys', JSON.stringify({ primary: '0', keys: [k1] }), /^"keys" is not an object$/],
    ['without keys', text('k1', {}), /^needs 1 to 16 keys$/],
    ['with a primary that it lacks', text('k2', { k1 }), /^"primary" is not one of the keys$/],
    ['without a primary', JSON.stringify({ keys: { k1 } }), /^"primary" is not one of the keys$/],
    ['with something unknown', JSON.stringify({ primary: 'k1', keys: { k1 }, more: 1 }), /^only "primary"/],
    ['with a short key', text('k1', { k1: k1.slice(1) }), /^k1: a key is 43 base64url characters$/],
    ['with a key of 33 bytes', text('k1', { k1: randomBytes(33).toString('base64url') }), /^k1: a key is 43/],
    ['with something before a key', text('k1', { k1: `.${k1}` }), /^k1: a key is 43/],
    ['with a key in a list', JSON.stringify({ primary: 'k1', keys: { k1: [k1] } }), /^k1: a key is 43/],
    ['with a key of another spelling', text('k1', { k1: `${k1.slice(0, 42)}/` }), /^k1: a key is 43/],
    ['with a key of spare bits', text('k1', { k1: `${'A'.repeat(41)}QB` }), /^k1: not 32 random bytes$/],
    ['with zeros for a key', text('k1', { k1: 'A'.repeat(43) }), /^k1: not 32 random bytes$/],
    ['with one key twice', text('k1', { k1, k2: k1 }), /^two ids have the same key$/],
    ['with one id twice', `{"primary":"k1","keys":{"k1":"${k1}","k1":"${k2}"}}`, /^not JSON$/],
    ['with an id in capitals', text('K1', { K1: k1 }), /^a key id is/],
    ['with an id that begins with a hyphen', text('-k1', { '-k1': k1 }), /^a key id is/],
    ['with an id that ends with a slash', text('k1/', { 'k1/': k1 }), /^a key id is/],
    ['with a dangerous id', `{"primary":"__proto__","keys":{"__proto__":"${k1}"}}`, /./],
    ['with seventeen keys', text('k0', many(17)), /^needs 1 to 16 keys$/],
  ])('%s is refused', (_, content, message) => {
    expect(() => parseKeyring(content)).toThrow(expect.objectContaining({ name: 'KeyringError' }));
    expect(() => parseKeyring(content)).toThrow(message);
  });

  it('may have sixteen keys', () => {
    expect(parseKeyring(text('k15', many(16))).has('k15')).toBe(true);
  });

  it('leaves no bytes of a key in the buffer that it was read into', () => {
    const read = vi.spyOn(Buffer, 'from');
    parseKeyring(text('k1', { k1, k2 }));
    const copies = read.mock.results
      .map(({ value }) => value as Buffer)
      .filter(({ length }) => length === 32);
    read.mockRestore();
    expect(copies).toHaveLength(2);
    for (const copy of copies) expect(copy.every((byte) => byte === 0)).toBe(true);
  });

  it('does not quote a key in its error', () => {
    const bad = `${k1}x`;
    expect(() => parseKeyring(text('k1', { k1: bad }))).toThrow(/^(?:(?!.*[A-Za-z0-9_-]{20}).)*$/);
  });
});

describe('a mounted keyring', () => {
  let directory: string;
  let path: string;
  beforeEach(() => {
    directory = mkdtempSync(join(tmpdir(), 'keyring-'));
    path = join(directory, 'keyring');
  });
  afterEach(() => rmSync(directory, { recursive: true }));
  const write = (content: string, mode = 0o440) => {
    rmSync(path, { force: true });
    writeFileSync(path, content);
    chmodSync(path, mode);
  };

  it('is rotated by adding, promoting and removing; a key in use cannot be removed', async () => {
    const inUse = new Set(['k1']);
    const seen: boolean[] = [];
    write(text('k1', { k1 }));
    const ring = await watchKeyring(path, { inUse: () => inUse, onChange: ({ ok }) => seen.push(ok) });
    write(text('k2', { k1, k2 }));
    await ring.refresh();
    expect(ring.current().primary).toBe('k2');
    write(text('k2', { k2 }));
    await ring.refresh();
    expect(ring.current().has('k1')).toBe(true);
    inUse.clear();
    await ring.refresh();
    expect(ring.current().has('k1')).toBe(false);
    expect(seen).toEqual([true, false, true]);
    ring.close();
  });

  it('that everybody may read prevents the start of a service', async () => {
    write(text('k1', { k1 }), 0o444);
    await expect(watchKeyring(path, { inUse: () => [] })).rejects.toThrow(/open to everybody/);
  });

  it('that lacks a key in use prevents the start of a service', async () => {
    write(text('k2', { k2 }));
    await expect(watchKeyring(path, { inUse: () => ['k1'] })).rejects.toThrow(/in use are missing: k1$/);
  });
});
