/**
 * Whether a write of a Capsule's inventory, to the registry or to the bucket, is one that the model of the custody
 * permits. Decisions are those of the custody itself; explored.test.ts goes through all orders of them.
 */
import { type Anchor, anchorOf, beyond, compare } from '../../anchor.ts';
import {
  clear,
  type Decision,
  type Next,
  planCreate,
  planned,
  planRotate,
  remove,
  select,
} from '../../changes.ts';
import {
  bySetId,
  emptyInventory,
  type Inventory,
  NO_HEAD,
  nextRevision,
  type SealedSet,
  type StoredInventory,
} from '../../inventory.ts';

/** What stands of one Capsule, and whether somebody has set it back since it was last decided about. */
export interface Standing {
  readonly rows: StoredInventory | undefined;
  readonly anchor: Anchor | undefined;
  readonly setBack: boolean;
  /** What else somebody may have read who was at work when it was set back. */
  readonly earlier?: readonly Read[];
}

type Read = Pick<Standing, 'rows' | 'anchor'>;

const nextOf = (decision: Decision<Next>) => (decision.refused === undefined ? decision.next : undefined);

const sameText = (one: unknown, other: unknown) => JSON.stringify(one) === JSON.stringify(other);

/** Judges rows that were committed. */
export function wrongCommit(standing: Standing, next: StoredInventory): string | undefined {
  const wrong = wrongFrom(standing, next);
  const permitted = standing.setBack && standing.earlier?.some((read) => wrongFrom(read, next) === undefined);
  return permitted === true ? undefined : wrong;
}

function wrongFrom({ rows, anchor }: Read, next: StoredInventory): string | undefined {
  const standing = compare(rows, anchor);
  const before: Inventory = rows ?? emptyInventory(next.capsule, next.incarnation);
  const decides = isDecision({ rows, anchor }, next);
  if (standing === 'agree') {
    const expected = nextRevision(rows, next);
    const follows = next.revision === expected.revision && next.previous === expected.previous;
    if (follows && changesOf(before, next).some((one) => isSame(one, next))) return undefined;
    return decides ? undefined : 'is no change of what was there';
  }
  if (standing === 'ahead') return 'is written over what is not anchored';
  return decides ? undefined : 'is written over what was set back';
}

/** Everything that an inventory may become by one change that leads to sets like these. */
function changesOf(before: Inventory, next: Inventory): Inventory[] {
  const expected = before.generation;
  const done: Inventory[] = [];
  const into = (inventory: Inventory | undefined) => inventory && done.push(inventory);
  for (const set of next.sets) {
    const old = before.sets.find(({ setId }) => setId === set.setId);
    if (old !== undefined && old.generation === set.generation) continue;
    const { setId, name } = set;
    const decision =
      old === undefined
        ? planCreate(before, { name, expected, candidate: set, setId, most: Number.MAX_SAFE_INTEGER })
        : planRotate(before, { setId, expected: old.generation, candidate: set });
    if (decision.refused === undefined) into(planned(before, { ...decision.set, envelope: set.envelope }));
  }
  into(nextOf(select(before, { setId: next.selected, expected })));
  for (const { setId, generation } of before.sets)
    into(nextOf(remove(before, { setId, expected: generation, tombstone: undefined })));
  // A drop of the Capsule leaves nothing, and a new key seals all sets again.
  into(clear(before, next.incarnation));
  const resealed = before.sets.map((set) => {
    const again = next.sets.find(({ setId }) => setId === set.setId);
    return again === undefined ? set : { ...set, envelope: again.envelope };
  });
  into({ ...before, sets: bySetId(resealed) });
  return done;
}

/** All but what makes a revision of it. What empty rows say of their incarnation follows the Capsule. */
function isSame(expected: Inventory, next: Inventory): boolean {
  const content = ({ generation, selected, high, sets }: Inventory) => [
    ...[generation, selected, high],
    ...sets.map(fieldsOf),
  ];
  return sameText(content(expected), content(next));
}

const fieldsOf = ({ setId, name, generation, endpoint, region, bucket, envelope, ...rest }: SealedSet) => [
  ...[setId, name, generation, endpoint, region, bucket, rest.fingerprint, envelope.jwe],
];

/** An administrator's: beyond every number that either side has seen, with the sets of then, or with none. */
function isDecision({ rows, anchor }: Read, next: StoredInventory): boolean {
  const numbers = beyond(rows, anchor);
  const { revision, generation, high, previous } = next;
  if (!sameText([revision, generation, high, previous], Object.values(ordered(numbers)))) return false;
  if (next.sets.length === 0) return next.selected === null;
  const ids = (sets: readonly SealedSet[]) => sets.map(({ setId, name }) => `${setId} ${name}`);
  return (
    sameText(ids(rows?.sets ?? []), ids(next.sets)) &&
    next.sets.every((set) => set.generation === numbers.high) &&
    next.selected === (rows?.selected ?? null)
  );
}

const ordered = ({ revision, generation, high, previous }: ReturnType<typeof beyond>) => ({
  ...{ revision, generation, high, previous },
});

/** Judges an anchor that was written, by every inventory that was ever committed, by its head. */
export function wrongAnchor(
  { rows, anchor, setBack }: Standing,
  next: Anchor,
  committed: (head: string) => StoredInventory | undefined,
): string | undefined {
  const inventory = committed(next.head);
  if (inventory === undefined) return 'is an anchor of what is not in the registry';
  if (!sameText(anchorOf(inventory), next)) return 'is an anchor with other numbers than its inventory';
  if (inventory.previous !== (anchor?.head ?? NO_HEAD)) return 'does not follow the anchor that is there';
  if (inventory.revision <= (anchor?.revision ?? 0)) return 'goes back';
  // A write of before may land late, and then meets what was set back.
  if (!setBack && rows?.head !== next.head) return 'is not what the registry has';
  return undefined;
}

/** What a caller may see of an inventory. */
export type Shown = Pick<Inventory, 'generation' | 'selected'> & {
  readonly sets: readonly Pick<SealedSet, 'setId' | 'generation'>[];
};

export const shownOf = ({ generation, selected, sets }: Shown): Shown => ({
  ...{ generation, selected },
  sets: bySetId(sets.map(({ setId, generation }) => ({ setId, generation }))),
});

/** Judges an answer: `floor` is the newest generation that anybody had been told of when it was asked for. */
export function wrongAnswer(
  floor: number,
  told: Pick<Shown, 'generation'> & Partial<Shown>,
  anchored: (generation: number) => Shown | undefined,
): string | undefined {
  if (told.generation < floor) return `is told generation ${told.generation} after ${floor}`;
  const known = anchored(told.generation);
  if (known === undefined) return `is told generation ${told.generation}, which was not anchored`;
  const shown = shownOf(known);
  return sameText(shown, shownOf({ ...shown, ...told }))
    ? undefined
    : 'is told what that generation never was';
}
