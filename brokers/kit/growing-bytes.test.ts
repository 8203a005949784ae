import fc from 'fast-check';
import { expect, it } from 'vitest';
import { GrowingBytes } from './growing-bytes.ts';

it('holds all parts in no more than twice as much memory and never more than its maximum', () => {
  const part = fc.uint8Array({ maxLength: 3_000 });
  fc.assert(
    fc.property(fc.array(part, { maxLength: 60 }), fc.nat(60_000), (parts, most) => {
      const growing = new GrowingBytes(most);
      const taken: Uint8Array[] = [];
      for (const one of parts) {
        const before = growing.bytes().length;
        const fits = before + one.length <= most;
        expect(growing.append(one)).toBe(fits);
        if (fits) taken.push(one);
        const { length } = growing.bytes();
        expect(length).toBe(fits ? before + one.length : before);
        expect(growing.allocated).toBeLessThanOrEqual(Math.min(most, Math.max(4_096, 2 * length)));
      }
      expect(growing.bytes().equals(Buffer.concat(taken))).toBe(true);
    }),
  );
});

it('copies its parts, so the caller may reuse their buffers', () => {
  const growing = new GrowingBytes(10);
  const part = Buffer.from('first');
  growing.append(part);
  part.fill('x');
  expect(growing.bytes().toString()).toBe('first');
});

it('moves each byte at most a few times if a megabyte arrives byte by byte', () => {
  const growing = new GrowingBytes(2 ** 20);
  const moves = new Set<number>();
  for (let at = 0; at < 2 ** 20; at += 1) {
    growing.append(Buffer.of(at & 0xff));
    moves.add(growing.allocated);
  }
  expect(moves.size).toBeLessThan(12);
});

it('frees what it no longer needs at once, without the collector', () => {
  const growing = new GrowingBytes(2 ** 20);
  const former: Buffer[] = [];
  for (let n = 0; n < 64; n += 1) {
    growing.append(Buffer.alloc(16 * 1024, n));
    former.push(growing.bytes());
  }
  expect(former.filter(({ length }) => length > 0).length).toBeLessThan(40);
  expect(growing.bytes().length).toBe(2 ** 20);
  growing.free();
  expect([...former, growing.bytes()].filter(({ length }) => length > 0)).toEqual([]);
  expect(growing.append(Buffer.from('again'))).toBe(true);
  expect(growing.bytes().toString()).toBe('again');
});
