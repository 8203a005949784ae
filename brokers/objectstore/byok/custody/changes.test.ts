import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
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

it('any requests in any order: changes apply only to the expected state, and no number is reused', () => {
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

describe('one change', () => {
  const set = (id: string, changes: Partial<CredentialSet> = {}): SealedSet => {
    const times = { createdAt: 1, rotatedAt: null };
    return sealed({ ...candidate(0), setId: id, name: `name of ${id}`, generation: 3, ...times, ...changes });
  };
  const [first, second] = [set('ocs_a'), set('ocs_b')];
  const inventory: Inventory = {
    ...emptyInventory('home', 1),
    ...{ generation: 7, high: 5, selected: 'ocs_a', sets: [first, second] },
  };

  const create = (changes: Partial<Parameters<typeof planCreate>[1]> = {}) =>
    planCreate(inventory, {
      ...{ name: 'new', expected: 7, candidate: candidate(1), setId: 'ocs_c', most: 3 },
      ...changes,
    });

  it('creates a set with a unique name, up to the limit', () => {
    expect(create()).toEqual({
      set: {
        ...{ ...candidate(1), setId: 'ocs_c', name: 'new', generation: 1 },
        ...{ createdAt: 1, rotatedAt: null },
      },
    });
    for (const name of [first.name, second.name]) expect(create({ name }).refused).toBe('already_exists');
    expect(create({ most: 2 }).refused).toBe('quota_exceeded');
    expect(create({ expected: 6 }).refused).toBe('stale_generation');
  });

  const rotate = (changes: Partial<Candidate> = {}, at: { setId?: string; expected?: number } = {}) =>
    planRotate(inventory, {
      ...{ setId: 'ocs_b', expected: 3, candidate: { ...candidate(0), verifiedAt: 9, ...changes } },
      ...at,
    });

  it('gives a set another key of the same bucket at the same endpoint, and nothing else', () => {
    expect(rotate({ region: 'other' })).toEqual({
      set: {
        ...{ ...candidate(0), verifiedAt: 9, region: 'other', setId: 'ocs_b', name: second.name },
        ...{ generation: 4, createdAt: 1, rotatedAt: 9 },
      },
    });
    expect(rotate({ endpoint: candidate(1).endpoint }).refused).toBe('invalid_request');
    expect(rotate({ bucket: 'another' }).refused).toBe('invalid_request');
    expect(rotate({}, { setId: 'ocs_c' }).refused).toBe('not_found');
    expect(rotate({}, { expected: 2 }).refused).toBe('stale_generation');
  });

  it('replaces a sealed set with a newer one, and never lowers the highest number', () => {
    const rotated = set('ocs_a', { generation: 4 });
    expect(planned(inventory, rotated)).toEqual({ ...inventory, generation: 8, sets: [rotated, second] });
    const highest = set('ocs_c', { generation: 6 });
    expect(planned(inventory, highest)).toMatchObject({ high: 6, sets: [first, second, highest] });
  });

  it('selects an existing set, or none, and changes nothing if it is already selected', () => {
    const chosen = (setId: string | null, expected = 7) => select(inventory, { setId, expected });
    for (const setId of ['ocs_b', null])
      expect(chosen(setId)).toEqual({ next: { ...inventory, generation: 8, selected: setId } });
    expect(chosen('ocs_a')).toEqual({ next: inventory });
    expect(chosen('ocs_c').refused).toBe('not_found');
    expect(chosen('ocs_b', 6).refused).toBe('stale_generation');
  });

  it('deletes a set that is not selected, once, and reports one that was deleted before', () => {
    const removed = (setId: string, expected = 3, tombstone?: number) =>
      remove(inventory, { setId, expected, tombstone });
    expect(removed('ocs_b')).toEqual({
      next: { ...inventory, generation: 8, sets: [first] },
      alreadyAbsent: false,
    });
    expect(removed('ocs_a').refused).toBe('credential_selected');
    expect(removed('ocs_b', 2).refused).toBe('stale_generation');
    expect(removed('ocs_c').refused).toBe('not_found');
    expect(removed('ocs_c', 3, 3)).toEqual({ next: inventory, alreadyAbsent: true });
    expect(removed('ocs_c', 3, 2).refused).toBe('stale_generation');
    // A set that is there is judged by itself, whatever was deleted under its id before.
    expect(removed('ocs_b', 3, 2)).toMatchObject({ alreadyAbsent: false });
  });

  it('removes everything of a dropped Capsule, and continues its numbers', () => {
    expect(clear(inventory, 2)).toEqual({
      ...{ ...inventory, generation: 8, incarnation: 2 },
      ...{ selected: null, sets: [] },
    });
  });
});
