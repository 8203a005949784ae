import { Secret } from '@space/broker-kit';
import fc from 'fast-check';
import { expect, it } from 'vitest';
import { checkedName, databaseName, isNameOf } from './names.ts';

const key = new Secret(Buffer.alloc(32, 7));
const id = fc.stringMatching(/^[a-z][a-z0-9]*(?:-[a-z0-9]+)*$/).filter((text) => text.length <= 40);

it('names are short, safe and without ids, and differ if any part differs', () => {
  const seen = new Map<string, string>();
  fc.assert(
    fc.property(id, id, id, fc.constantFrom('0123456789ab', 'ba9876543210'), (space, capsule, app, epoch) => {
      const name = databaseName(key, space, { capsule, app }, epoch);
      expect(checkedName(name)).toMatch(/^spc_[0-9a-f]{40}$/);
      const what = JSON.stringify([space, capsule, app, epoch]);
      expect(seen.get(name) ?? what).toBe(what);
      seen.set(name, what);
      expect(isNameOf(key, space, { capsule, app }, name)).toBe(true);
      expect(isNameOf(key, space, { capsule, app: `${app}x` }, name)).toBe(false);
    }),
    { numRuns: 2_000 },
  );
});

it('the names for a-b with c and for a with b-c differ', () => {
  const one = databaseName(key, 's', { capsule: 'a-b', app: 'c' }, 'e');
  expect(databaseName(key, 's', { capsule: 'a', app: 'b-c' }, 'e')).not.toBe(one);
});

it.each([
  'postgres',
  'spc_"',
  'spc_A',
  'spc_',
  `spc_${'a'.repeat(60)}`,
  'spc_a;b',
  'spc_ä',
  '"; spc_a',
  'xspc_a',
])('the name %j is refused in a statement', (name) => {
  expect(() => checkedName(name)).toThrow();
});
