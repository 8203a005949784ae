import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Candidate, clear, planCreate, planned, planRotate, remove, select } from './changes.ts';
import { type CredentialSet, emptyInventory, type Inventory, type SealedSet } from './inventory.ts';

const MOST = 3;

const candidate = (endpoint: number): Candidate => ({
  endpoint: `https://s${endpoint}.example.net`,
  region: 'r',
  bucket: 'bucket',
  addressing: 'path',
  formVersion: 1,
  fingerprint: 'fp_0000000000000000',
  verifiedAt: 1,
});
const sealed = (set: CredentialSet): SealedSet => ({
  ...set,
  envelope: { kid: 'k', jwe: `${set.setId}.${set.generation}` },
});

const near = fc.integer({ min: -1, max: 1 });
const step = fc.oneof(
  fc.record({ kind: fc.constant('create' as const), name: fc.nat(4), off: near }),
  fc.record({ kind: fc.constant('rotate' as const), at: fc.nat(4), off: near, endpoint: fc.nat(1) }),
  fc.record({ kind: fc.constant('select' as const), at: fc.option(fc.nat(4)), off: near }),
  fc.record({ kind: fc.constant('delete' as const), at: fc.nat(4), off: near }),
  fc.record({ kind: fc.constant('clear' as const) }),
);

it('whatever is asked in whatever order: what was expected was there, and no number comes twice', () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
      let inventory: Inventory = emptyInventory('home', 1);
      const ids: string[] = [];
      const tombstones = new Map<string, number>();
      const seen = new Set<string>();
      const keep = (set: CredentialSet) => {
        const once = `${set.setId} ${set.generation}`;
        expect(seen.has(once)).toBe(false);
        seen.add(once);
        return planned(inventory, sealed(set));
      };
      const idOf = (at: number) => ids[at % (ids.length || 1)] ?? 'ocs_unknown';
      const generationOf = (id: string) => inventory.sets.find(({ setId }) => setId === id)?.generation;

      for (const one of steps) {
        const before = inventory;
        const expected = before.generation + ('off' in one ? one.off : 0);
        if (one.kind === 'create') {
          const setId = `ocs_${ids.length}`;
          const decision = planCreate(before, {
            name: `n${one.name}`,
            expected,
            candidate: candidate(0),
            setId,
            most: MOST,
          });
          if (one.off !== 0) expect(decision.refused).toBe('stale_generation');
          if (decision.refused === undefined) {
            ids.push(setId);
            inventory = keep(decision.set);
          }
        } else if (one.kind === 'rotate') {
          const setId = idOf(one.at);
          const at = (generationOf(setId) ?? 1) + one.off;
          const decision = planRotate(before, { setId, expected: at, candidate: candidate(one.endpoint) });
          if (one.off !== 0 || one.endpoint !== 0) expect(decision.refused).toBeDefined();
          if (decision.refused === undefined) inventory = keep(decision.set);
        } else if (one.kind === 'select') {
          const setId = one.at === null ? null : idOf(one.at);
          const decision = select(before, { setId, expected });
          if (one.off !== 0) expect(decision.refused).toBeDefined();
          if (decision.refused === undefined) inventory = decision.next;
        } else if (one.kind === 'delete') {
          const setId = idOf(one.at);
          const at = (generationOf(setId) ?? tombstones.get(setId) ?? 1) + one.off;
          const decision = remove(before, { setId, expected: at, tombstone: tombstones.get(setId) });
          if (decision.refused === undefined) {
            expect(setId).not.toBe(before.selected);
            if (!decision.alreadyAbsent) tombstones.set(setId, generationOf(setId) ?? 0);
            inventory = decision.next;
          }
        } else {
          for (const { setId, generation } of before.sets) tombstones.set(setId, generation);
          inventory = clear(before, before.incarnation + 1);
        }

        // Only a change of nothing keeps the number.
        expect(inventory.generation - before.generation).toBe(inventory === before ? 0 : 1);
        expect(inventory.sets.length).toBeLessThanOrEqual(MOST);
        const names = inventory.sets.map(({ name }) => name);
        expect(new Set(names).size).toBe(names.length);
        const living = inventory.sets.map(({ setId }) => setId);
        expect(living).toEqual([...living].sort());
        expect(inventory.selected === null || living.includes(inventory.selected)).toBe(true);
        expect(inventory.high).toBeGreaterThanOrEqual(
          Math.max(0, ...inventory.sets.map(({ generation }) => generation)),
        );
      }
    }),
    { numRuns: 400 },
  );
});
