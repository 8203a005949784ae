import { createHash } from 'node:crypto';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { NameTable } from './name-table.ts';

const nameOf = (n: number) => createHash('sha256').update(String(n)).digest('hex');

/** Names that begin alike, so that they want the same slot. */
const crowded = (n: number) => `00000000${nameOf(n).slice(8)}`;

const ACTS = fc.array(
  fc.record({
    name: fc.oneof(fc.nat(40).map(nameOf), fc.nat(40).map(crowded)),
    act: fc.constantFrom('set', 'mark', 'unmark', 'get'),
    value: fc.nat(),
  }),
  { maxLength: 200 },
);

test('the table answers as a Map and a Set of marks do', () => {
  fc.assert(
    fc.property(ACTS, (acts) => {
      const table = new NameTable();
      const map = new Map<string, number>();
      const marks = new Set<string>();
      for (const { name, act, value } of acts) {
        if (act === 'set') {
          table.set(name, value);
          map.set(name, value);
        } else if (act === 'mark') {
          expect(table.mark(name)).toBe(map.has(name) && !marks.has(name));
          if (map.has(name)) marks.add(name);
        } else if (act === 'unmark') expect(table.unmark(name)).toBe(marks.delete(name));
        expect(table.get(name)).toBe(map.get(name));
        expect(table.has(name)).toBe(map.has(name));
        expect(table.size).toBe(map.size);
      }
    }),
  );
});

test('values and marks outlive the growth of the table', () => {
  const table = new NameTable();
  for (let n = 0; n < 10_000; n += 1) {
    table.set(nameOf(n), n);
    if (n % 3 === 0) table.mark(nameOf(n));
  }
  for (let n = 0; n < 10_000; n += 1) {
    expect(table.get(nameOf(n))).toBe(n);
    expect(table.unmark(nameOf(n))).toBe(n % 3 === 0);
  }
  expect(table.get(nameOf(10_000))).toBeUndefined();
});
