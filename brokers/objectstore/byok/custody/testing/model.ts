import { randomBytes } from 'node:crypto';
import { parseKeyring } from '@space/broker-kit/custody';
import type { Random } from '../../../../../testing/random.ts';
import { type Anchor, anchorOf, readAnchor, writeAnchor } from '../anchor.ts';
import { type Candidate, planCreate, planned, planRotate, remove, select } from '../changes.ts';
import {
  emptyInventory,
  type Inventory,
  nextRevision,
  type SealedSet,
  type StoredInventory,
} from '../inventory.ts';
import { parseInventory, type RawInventory } from '../rows.ts';
import { type Credential, createSeals, type Seals } from '../seals.ts';
import { judge } from '../trust.ts';
import type { Image, Store } from './mutations.ts';

/**
 * The custody's pure core without a database: changes are decided, sealed, written as rows and anchors, and read back,
 * as many thousands of times as a bench likes. The same steps as in service, in the same order.
 */
export interface Model {
  /** One change that a caller might ask for; every tenth time the keyring is rotated under it. */
  step(random: Random): Promise<void>;
  /** What is asked of the rows before a set is used. */
  judge(capsule: string, raw: unknown): ReturnType<typeof judge>;
  /** Opens every set of the Capsule and compares it with what was submitted. */
  openAll(capsule: string): Promise<boolean>;
  store(): Store;
  /** Keeps the present image for later mutations. */
  remember(): void;
  readonly capsules: readonly string[];
}

const SPACE = 'home';
const MOST = 4;
const KEPT = 64;

export function createModel(capsules: readonly string[]): Model {
  const keys = { k1: randomBytes(32).toString('base64url'), k2: randomBytes(32).toString('base64url') };
  const rings = ['k1', 'k2'].map((primary) =>
    createSeals(SPACE, parseKeyring(JSON.stringify({ primary, keys }))),
  );
  let seals = rings[0] as Seals;
  const image = new Map<string, RawInventory>();
  const anchors = new Map<string, Anchor>();
  const history: Image[] = [];
  const submitted = new Map<string, Credential>();
  let steps = 0;

  function read(capsule: string): StoredInventory | undefined {
    const raw = image.get(capsule);
    const verdict = judge(seals, capsule, raw, anchors.get(capsule));
    if (verdict !== 'agree') throw new Error(`a false alarm: ${verdict}`);
    return raw === undefined ? undefined : parseInventory(raw);
  }

  function write(stored: StoredInventory | undefined, next: Inventory): void {
    const sealed = seals.sealInventory(nextRevision(stored, next));
    image.set(sealed.capsule, rawOf(sealed));
    // Registry first: between the two the registry is one ahead, and that is no alarm.
    const between = judge(seals, sealed.capsule, image.get(sealed.capsule), anchors.get(sealed.capsule));
    if (between !== 'ahead') throw new Error(`between the two writes: ${between}`);
    const anchor = readAnchor(writeAnchor(anchorOf(sealed)));
    if (anchor !== undefined) anchors.set(sealed.capsule, anchor);
  }

  async function seal(inventory: Inventory, decision: ReturnType<typeof planCreate>) {
    if (decision.refused !== undefined) return undefined;
    const { set } = decision;
    const credential = {
      accessKeyId: `AK${set.setId}`,
      secretAccessKey: randomBytes(24).toString('base64url'),
    };
    const sealed = await seals.sealSet(inventory, set, credential);
    submitted.set(`${inventory.capsule} ${set.setId}`, credential);
    return planned(inventory, sealed);
  }

  async function change(inventory: Inventory, random: Random): Promise<Inventory | undefined> {
    const set = inventory.sets[random(inventory.sets.length || 1)];
    const action = random(10);
    if (action < 3 || set === undefined) {
      const name = `n${random(50)}`;
      const setId = `ocs_${randomBytes(16).toString('base64url')}`;
      const expected = inventory.generation;
      return seal(
        inventory,
        planCreate(inventory, { name, expected, candidate: candidate(random), setId, most: MOST }),
      );
    }
    if (action < 6) {
      const { endpoint, bucket } = set;
      const request = {
        setId: set.setId,
        expected: set.generation,
        candidate: { ...candidate(random), endpoint, bucket },
      };
      return seal(inventory, planRotate(inventory, request));
    }
    if (action < 8) {
      const decision = select(inventory, {
        setId: random(3) === 0 ? null : set.setId,
        expected: inventory.generation,
      });
      return decision.refused === undefined ? decision.next : undefined;
    }
    const decision = remove(inventory, { setId: set.setId, expected: set.generation, tombstone: undefined });
    return decision.refused === undefined ? decision.next : undefined;
  }

  return {
    capsules,
    step: async (random) => {
      steps += 1;
      const capsule = capsules[random(capsules.length)] ?? 'home';
      const stored = read(capsule);
      const current: Inventory = stored ?? emptyInventory(capsule, 1);
      if (steps % 10 === 0) {
        seals = rings[random(2)] ?? seals;
        const sets: SealedSet[] = [];
        for (const set of current.sets) sets.push(await seals.resealSet(current, set));
        if (stored !== undefined) write(stored, { ...current, sets });
        return;
      }
      const next = await change(current, random);
      if (next !== undefined && next !== current) write(stored, next);
      read(capsule);
    },
    judge: (capsule, raw) => judge(seals, capsule, raw, anchors.get(capsule)),
    openAll: async (capsule) => {
      const stored = read(capsule);
      for (const set of stored?.sets ?? []) {
        const opened = await seals.openSet(stored as StoredInventory, set);
        const expected = submitted.get(`${capsule} ${set.setId}`);
        if (JSON.stringify(opened) !== JSON.stringify(expected)) return false;
      }
      return true;
    },
    store: () => ({ image, anchors, history }),
    remember: () => {
      history.push(new Map(image));
      if (history.length > KEPT) history.shift();
    },
  };
}

function candidate(random: Random): Candidate {
  return {
    endpoint: `https://s3-${random(3)}.example.net`,
    region: 'us-east-1',
    bucket: `bucket-${random(5)}`,
    addressing: random(2) === 0 ? 'path' : 'virtual-host',
    formVersion: 1,
    fingerprint: `fp_${randomBytes(8).toString('hex')}`,
    verifiedAt: 1_790_000_000_000 + random(1_000_000),
  };
}

/** Rows as the database would tell them. */
function rawOf(stored: StoredInventory): RawInventory {
  const { capsule, incarnation, generation, revision, selected, high, previous, headKid, head } = stored;
  return {
    capsule_id: capsule,
    ...{ life: incarnation, generation, revision, selected, high, previous, head },
    head_kid: headKid,
    sets: stored.sets.map((set) => ({
      set_id: set.setId,
      name: set.name,
      form_version: set.formVersion,
      generation: set.generation,
      endpoint: set.endpoint,
      region: set.region,
      bucket: set.bucket,
      addressing: set.addressing,
      fingerprint: set.fingerprint,
      verified_at: set.verifiedAt,
      created_at: set.createdAt,
      rotated_at: set.rotatedAt,
      kid: set.envelope.kid,
      envelope: set.envelope.jwe,
    })),
  };
}
