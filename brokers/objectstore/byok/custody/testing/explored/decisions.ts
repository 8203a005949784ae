/** What the custody decides at each step, by its own functions, or as a defect has it. */
import { type AnchorVerdict, anchorOf, beyond, compare } from '../../anchor.ts';
import { type Candidate, planCreate, planned, planRotate } from '../../changes.ts';
import {
  emptyInventory,
  headParts,
  type Inventory,
  nextRevision,
  type StoredInventory,
} from '../../inventory.ts';
import type { Defect } from './bounds.ts';

/** An inventory by its number, which is the same for the same content; 0 is none. */
export type Version = number;

const OWNER = { capsule: 'home', incarnation: 1 };
const MOST = 4;

/** Numbers inventories by their content, as a MAC does that nobody can forge. */
class Versions {
  readonly #ids = new Map<string, Version>();
  readonly #all: (StoredInventory | undefined)[] = [undefined];

  of(version: Version): StoredInventory | undefined {
    return this.#all[version];
  }

  add(inventory: Inventory): Version {
    const content = JSON.stringify(headParts('space', inventory));
    const known = this.#ids.get(content);
    if (known !== undefined) return known;
    const id = this.#all.length;
    this.#ids.set(content, id);
    this.#all.push({ ...inventory, headKid: 'k1', head: id.toString(16).padStart(64, '0') });
    return id;
  }
}

function candidate(nonce: number): Candidate {
  return {
    endpoint: 'https://s3.example.org',
    region: 'us-east-1',
    bucket: 'own',
    addressing: 'path',
    formVersion: 1,
    fingerprint: `fp_${nonce}`,
    verifiedAt: nonce,
  };
}

const sealed = <Set extends { readonly verifiedAt: number }>(set: Set, nonce: number) => ({
  ...set,
  envelope: { kid: 'k1', jwe: `${nonce}` },
});

export interface Decisions {
  /** The inventory with one set that everything begins with. */
  readonly created: Version;
  generationOf(version: Version): number;
  inventoryOf(version: Version): StoredInventory | undefined;
  verdictOf(rows: Version, anchor: Version): AnchorVerdict;
  /** What a change writes: the set rotated, or made anew where there is none. */
  rotated(rows: Version, nonce: number): Version;
  /** What an administrator's decision writes. */
  decided(work: 'accept' | 'discard', rows: Version, anchor: Version): Version;
}

export function createDecisions(defect: Defect | undefined): Decisions {
  const versions = new Versions();
  const is = (one: Defect) => defect === one;
  const generationOf = (version: Version) => versions.of(version)?.generation ?? 0;

  const created = (() => {
    const empty = emptyInventory(OWNER.capsule, OWNER.incarnation);
    const decision = planCreate(empty, {
      name: 'one',
      expected: 0,
      candidate: candidate(0),
      setId: 's1',
      most: MOST,
    });
    if (decision.refused !== undefined) throw new Error(decision.refused);
    return versions.add(nextRevision(undefined, planned(empty, sealed(decision.set, 0))));
  })();

  function verdictOf(rows: Version, anchor: Version): AnchorVerdict {
    const [stored, anchored] = [versions.of(rows), versions.of(anchor)];
    const verdict = compare(stored, anchored && anchorOf(anchored));
    if (verdict !== 'rollback') return verdict;
    if (is('compares revisions alone') && stored?.revision === anchored?.revision) return 'agree';
    if (is('takes a missing registry for a new one') && stored === undefined) return 'agree';
    return verdict;
  }

  function rotated(rows: Version, nonce: number): Version {
    const stored = versions.of(rows);
    const set = stored?.sets[0];
    if (stored === undefined || set === undefined) {
      const empty = stored ?? emptyInventory(OWNER.capsule, OWNER.incarnation);
      const request = { name: 'one', expected: empty.generation, candidate: candidate(nonce), most: MOST };
      const decision = planCreate(empty, { ...request, setId: `s${nonce + 2}` });
      if (decision.refused !== undefined) throw new Error(decision.refused);
      return versions.add(nextRevision(stored, planned(empty, sealed(decision.set, nonce))));
    }
    const request = { setId: set.setId, expected: set.generation, candidate: candidate(nonce) };
    const decision = planRotate(stored, request);
    if (decision.refused !== undefined) throw new Error(decision.refused);
    const next = planned(stored, sealed(decision.set, nonce));
    const same = is('rotates within one generation') ? { ...next, generation: stored.generation } : next;
    return versions.add(nextRevision(stored, same));
  }

  function decided(work: 'accept' | 'discard', rows: Version, anchor: Version): Version {
    const [stored, anchored] = [versions.of(rows), versions.of(anchor)];
    const known = anchored && anchorOf(anchored);
    const base = stored ?? emptyInventory(OWNER.capsule, OWNER.incarnation);
    if (work === 'discard') {
      const numbers = beyond(stored, is('discards below the anchor') ? undefined : known);
      const empty = emptyInventory(OWNER.capsule, OWNER.incarnation);
      if (is('discards back to nothing')) return versions.add({ ...empty, revision: 1 });
      return versions.add({ ...empty, ...numbers });
    }
    const numbers = beyond(base, is('accepts below the anchor') ? undefined : known);
    const kept = is('accepts with the numbers of the rows')
      ? { ...numbers, generation: base.generation }
      : numbers;
    const same = is('accepts without a new generation')
      ? { ...numbers, generation: Math.max(base.generation, known?.generation ?? 0) }
      : kept;
    const sets = base.sets.map((set) => ({
      ...set,
      generation: numbers.high,
      envelope: { kid: 'k1', jwe: `${set.envelope.jwe} again` },
    }));
    return versions.add({ ...base, sets, ...same });
  }

  const inventoryOf = (version: Version) => versions.of(version);
  return { created, generationOf, inventoryOf, verdictOf, rotated, decided };
}
