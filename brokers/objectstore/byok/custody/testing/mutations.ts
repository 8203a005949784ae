import type { Random } from '../../../../../testing/random.ts';
import type { Anchor } from '../anchor.ts';
import type { RawInventory } from '../rows.ts';

/** What the registry holds at one moment, Capsule by Capsule, as the database tells it. */
export type Image = ReadonlyMap<string, RawInventory>;

/** Registry and anchors, and every earlier image that somebody may have kept. */
export interface Store {
  readonly image: Image;
  readonly anchors: ReadonlyMap<string, Anchor>;
  readonly history: readonly Image[];
}

export interface Mutation {
  readonly kind: string;
  readonly capsule: string;
  /** The rows of the Capsule after it; undefined if they are deleted. */
  readonly raw: RawInventory | undefined;
}

type Row = RawInventory['sets'][number];
type Mutate = (raw: RawInventory, store: Store, random: Random) => RawInventory | undefined;

const ENCODED = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_.';

/** One thing that somebody with the registry's password might do to the rows of a Capsule. */
const KINDS: Readonly<Record<string, Mutate>> = {
  'flip in a set': (raw, _store, random) => withSet(raw, random, (set) => flipped(set, random)),
  'flip in the inventory': (raw, _store, random) => {
    const { sets, ...inventory } = raw;
    return { ...flipped(inventory, random), sets };
  },
  'truncate an envelope': (raw, _store, random) =>
    withSet(raw, random, (set) => ({ ...set, envelope: set.envelope.slice(0, random(set.envelope.length)) })),
  'truncate the head': (raw, _store, random) => ({
    ...raw,
    head: raw.head.slice(0, random(raw.head.length)),
  }),
  'swap envelopes of two sets': (raw, store, random) => {
    const other = pick(allSets(store.image), random);
    return withSet(raw, random, (set) => ({ ...set, envelope: other.envelope, kid: other.kid }));
  },
  'swap whole sets, under this id': (raw, store, random) => {
    const other = pick(allSets(store.image), random);
    return withSet(raw, random, (set) => ({ ...other, set_id: set.set_id, name: set.name }));
  },
  'give a set of another Capsule': (raw, store, random) => {
    const other = pick(allSets(store.image), random);
    return { ...raw, sets: [...raw.sets.filter(({ set_id }) => set_id !== other.set_id), other] };
  },
  'splice two envelopes': (raw, store, random) => {
    const [from, at] = [pick(allSets(store.image), random).envelope.split('.'), random(5)];
    const parts = (set: Row) => set.envelope.split('.').map((part, i) => (i === at ? (from[i] ?? '') : part));
    return withSet(raw, random, (set) => ({ ...set, envelope: parts(set).join('.') }));
  },
  'take a set away': (raw, _store, random) => {
    const at = random(raw.sets.length);
    return { ...raw, sets: raw.sets.filter((_, i) => i !== at) };
  },
  'redirect a set': (raw, _store, random) =>
    withSet(raw, random, (set) =>
      random(2) === 0
        ? { ...set, endpoint: 'https://evil.example.net' }
        : { ...set, bucket: `${set.bucket}x` },
    ),
  'select another': (raw, _store, random) => ({
    ...raw,
    selected: random(2) === 0 ? null : pick(raw.sets, random).set_id,
  }),
  'put the rows of another Capsule here': (raw, store, random) => {
    const other = pick([...store.image.values()], random);
    return { ...other, capsule_id: random(2) === 0 ? raw.capsule_id : other.capsule_id };
  },
  'restore everything': (raw, store, random) => pick(store.history, random).get(raw.capsule_id),
  'restore one set': (raw, store, random) => {
    const before = pick(store.history, random).get(raw.capsule_id)?.sets ?? [];
    return withSet(
      raw,
      random,
      (set) => before.find(({ set_id }) => set_id === set.set_id) ?? flipped(set, random),
    );
  },
  'restore the inventory, but not its sets': (raw, store, random) => {
    const before = pick(store.history, random).get(raw.capsule_id);
    return before && { ...before, sets: raw.sets };
  },
  'restore and count on': (raw, store, random) => {
    const before = pick(store.history, random).get(raw.capsule_id);
    return before && { ...before, revision: raw.revision, generation: raw.generation };
  },
  'forget the Capsule': () => undefined,
};

export const MUTATIONS = Object.keys(KINDS);

/** A random mutation that changes something. */
export function mutate(store: Store, random: Random): Mutation {
  for (;;) {
    const raw = pick([...store.image.values()], random);
    const kind = pick(MUTATIONS, random);
    if (raw.sets.length === 0 && kind !== 'restore everything') continue;
    const mutated = KINDS[kind]?.(raw, store, random);
    if (!same(raw, mutated)) return { kind, capsule: raw.capsule_id, raw: mutated };
  }
}

/** The order of the sets has no meaning. */
function same(a: RawInventory, b: RawInventory | undefined): boolean {
  if (b === undefined) return false;
  const spelt = ({ sets, ...inventory }: RawInventory) =>
    JSON.stringify([
      Object.entries(inventory).sort(),
      sets.map((set) => JSON.stringify(Object.entries(set).sort())).sort(),
    ]);
  return spelt(a) === spelt(b);
}

function withSet(raw: RawInventory, random: Random, change: (set: Row) => Row): RawInventory {
  const at = random(raw.sets.length);
  return { ...raw, sets: raw.sets.map((set, i) => (i === at ? change(set) : set)) };
}

/** One column of a row changed a little. */
function flipped<R extends Readonly<Record<string, unknown>>>(row: R, random: Random): R {
  const [name, value] = pick(Object.entries(row), random);
  return { ...row, [name]: flippedValue(value, random) };
}

function flippedValue(value: unknown, random: Random): unknown {
  if (typeof value === 'number') return Math.abs(value + (random(2) === 0 ? 1 : -1)) || 2;
  if (typeof value !== 'string') return value === null ? 'ocs_AAAAAAAAAAAAAAAAAAAAAA' : value;
  if (value === '') return 'x';
  const at = random(value.length);
  // Either one bit of a character, or another character of the alphabet that envelopes are written in.
  const to =
    random(2) === 0
      ? String.fromCharCode(value.charCodeAt(at) ^ (1 << random(7)))
      : (ENCODED[random(ENCODED.length)] ?? 'A');
  return value.slice(0, at) + to + value.slice(at + 1);
}

function allSets(image: Image): Row[] {
  return [...image.values()].flatMap(({ sets }) => sets);
}

function pick<T>(from: readonly T[], random: Random): T {
  const value = from[random(from.length)];
  if (value === undefined) throw new Error('nothing to pick from');
  return value;
}
