/** Replays what real brokers wrote to registry and bucket, and answered, against the model of the custody. */
import { type Conformance, Trace } from '../../../../../../testing/conformance.ts';
import { watchChanges } from '../../../../../../testing/postgres/changes.ts';
import type { LoggedRow, Transaction } from '../../../../../../testing/postgres/pgoutput.ts';
import { type Anchor, anchorKey, compare } from '../../anchor.ts';
import type { StoredInventory } from '../../inventory.ts';
import type { Anchored, AnchorRecorder } from './anchors.ts';
import { Image, TABLES } from './image.ts';
import { type Shown, shownOf, wrongAnchor, wrongAnswer, wrongCommit } from './rules.ts';

/** An answer to a caller: what it shows, or that the custody of the Capsule was set back. */
interface Told {
  readonly capsule: string;
  /** The newest generation in any answer before the request. */
  readonly floor: number;
  /** When it was received, in milliseconds since 1970. */
  readonly at: number;
  readonly shown: (Pick<Shown, 'generation'> & Partial<Shown>) | 'rollback';
}

export interface CustodyChecker {
  told(answer: Told): void;
  /** The newest generation in any answer. */
  floorOf(capsule: string): number;
  /** Checks all writes and answers since the last call. No request may be in progress. */
  check(): Promise<Conformance>;
  close(): Promise<void>;
}

/** A transaction that a test writes itself, to set a Capsule back, has this note with the Capsule's name. */
export const SET_BACK = 'set back';

export async function watchCustody(
  registryUrl: string,
  recorder: Pick<AnchorRecorder, 'taken'>,
  space: string,
): Promise<CustodyChecker> {
  const changes = await watchChanges(registryUrl, TABLES);
  const replay = new Replay(space);
  const floors = new Map<string, number>();
  const answers: Told[] = [];
  return {
    told: (answer) => {
      answers.push(answer);
      const { capsule, shown } = answer;
      if (shown !== 'rollback') floors.set(capsule, Math.max(floors.get(capsule) ?? 0, shown.generation));
    },
    floorOf: (capsule) => floors.get(capsule) ?? 0,
    check: async () => {
      replay.merge(await changes.read(), recorder.taken());
      for (const answer of answers.splice(0)) replay.answered(answer);
      replay.settled();
      return replay.conformance;
    },
    close: changes.close,
  };
}

interface Life {
  rows: StoredInventory | undefined;
  anchor: Anchor | undefined;
  setBack: boolean;
  /** It was set back at some time since the last answers were judged. */
  wasSetBack: boolean;
  /** Those that were committed last, by their heads. */
  readonly heads: Map<string, StoredInventory>;
  /** What was anchored of each generation, and when first. */
  readonly anchored: Map<number, { readonly shown: Shown; readonly at: number }>;
}

const KEPT_HEADS = 32;

class Replay {
  readonly #space: string;
  readonly #image = new Image();
  readonly #trace = new Trace();
  readonly #lives = new Map<string, Life>();
  readonly #keys = new Map<string, string>();

  constructor(space: string) {
    this.#space = space;
  }

  get conformance(): Conformance {
    return this.#trace.conformance;
  }

  /**
   * An anchor comes after the rows that it is of, and after all that was committed before it was answered. Both clocks
   * are the machine's, of which one counts in milliseconds.
   */
  merge(transactions: readonly Transaction[], anchors: readonly Anchored[]): void {
    const left = [...transactions];
    for (const anchored of anchors) {
      const last = left.findLastIndex(
        (one) => one.at < anchored.at - 1 || headsOf(one).includes(anchored.anchor.head),
      );
      for (const transaction of left.splice(0, last + 1)) this.#commit(transaction);
      this.#anchor(anchored);
    }
    for (const transaction of left) this.#commit(transaction);
  }

  #lifeOf(capsule: string): Life {
    const known: Life = this.#lives.get(capsule) ?? {
      ...{ rows: undefined, anchor: undefined, setBack: false, wasSetBack: false },
      heads: new Map<string, StoredInventory>(),
      anchored: new Map([[0, { shown: { generation: 0, selected: null, sets: [] }, at: 0 }]]),
    };
    this.#lives.set(capsule, known);
    this.#keys.set(anchorKey(this.#space, capsule), capsule);
    return known;
  }

  #commit(transaction: Transaction): void {
    for (const capsule of this.#image.take(transaction)) {
      const life = this.#lifeOf(capsule);
      const next = this.#image.inventoryOf(capsule);
      if (transaction.notes.includes(`${SET_BACK} ${capsule}`)) {
        Object.assign(life, { rows: next, setBack: true, wasSetBack: true });
        this.#trace.saw(capsule, `is set back to revision ${next?.revision ?? 0}`, undefined);
        continue;
      }
      const wrong = next === undefined ? 'its rows are gone' : wrongCommit(life, next);
      this.#trace.saw(capsule, `rows: ${numbersOf(next)}`, wrong);
      life.rows = next;
      if (next === undefined) continue;
      life.heads.set(next.head, next);
      for (const head of life.heads.keys()) if (life.heads.size > KEPT_HEADS) life.heads.delete(head);
    }
    for (const { table, after } of transaction.changes)
      if (table === 'audit' && after !== undefined) this.#audit(after);
  }

  /** What an entry says is so when its transaction has ended. */
  #audit({ operation, capsule_id: capsule, outcome }: LoggedRow): void {
    if (operation?.startsWith('capsule.credential.') !== true || capsule == null) return;
    const { rows } = this.#lifeOf(capsule);
    const selects = operation === 'capsule.credential.select';
    const deletes = operation === 'capsule.credential.delete';
    const there = rows?.sets.some(({ setId }) => outcome?.startsWith(`${setId} `));
    const wrong =
      (selects && outcome !== (rows?.selected ?? 'managed')) || (deletes && there === true)
        ? 'the audit says what is not so'
        : undefined;
    this.#trace.saw(capsule, `audit: ${operation} ${outcome}`, wrong);
  }

  #anchor({ at, key, anchor }: Anchored): void {
    const capsule = this.#keys.get(key);
    if (capsule === undefined) {
      this.#trace.saw(key, 'an anchor is written', 'of no Capsule that the registry has');
      return;
    }
    const life = this.#lifeOf(capsule);
    const wrong = wrongAnchor(life, anchor, (head) => life.heads.get(head));
    this.#trace.saw(capsule, `anchor: ${numbersOf(anchor)}`, wrong);
    const inventory = life.heads.get(anchor.head);
    if (inventory !== undefined && !life.anchored.has(inventory.generation))
      life.anchored.set(inventory.generation, { shown: shownOf(inventory), at });
    life.anchor = anchor;
    if (compare(life.rows, anchor) === 'agree') life.setBack = false;
  }

  answered({ capsule, floor, at, shown }: Told): void {
    const life = this.#lifeOf(capsule);
    if (shown === 'rollback') {
      const wrong = life.setBack || life.wasSetBack ? undefined : 'is told of a rollback that never was';
      this.#trace.saw(capsule, 'told of a rollback', wrong);
      return;
    }
    const wrong = wrongAnswer(floor, shown, (generation) => {
      const known = life.anchored.get(generation);
      return known !== undefined && known.at <= at ? known.shown : undefined;
    });
    this.#trace.saw(capsule, `told generation ${shown.generation}`, wrong);
  }

  /** Answers of before were judged. */
  settled(): void {
    for (const life of this.#lives.values()) life.wasSetBack = life.setBack;
  }
}

const numbersOf = (one: Pick<Anchor, 'revision' | 'generation' | 'head'> | undefined) =>
  one === undefined
    ? 'none'
    : `revision ${one.revision}, generation ${one.generation}, ${one.head.slice(0, 8)}`;

const headsOf = ({ changes }: Transaction) =>
  changes.flatMap(({ table, after }) => (table === 'credential_inventory' ? [after?.['head']] : []));
