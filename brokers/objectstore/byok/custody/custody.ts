import { ConcurrencyLimit, type Logger, ServiceError, type Watched } from '@space/broker-kit';
import type { Keyring } from '@space/broker-kit/custody';
import { type Connections, inTransaction, type Session } from '@space/broker-kit/postgres';
import { anchorOf, compare } from './anchor.ts';
import type { Anchors, HeldAnchor } from './anchors.ts';
import { examine } from './examine.ts';
import { emptyInventory, GENESIS, type Inventory, type StoredInventory } from './inventory.ts';
import { forgetInventory, lockCustody, readInventory, unlockCustody, writeInventory } from './rows.ts';
import { type Credential, createSeals, type Seals } from './seals.ts';
import { Turns } from './turns.ts';

export type Alarm = 'damaged' | 'unknown_key' | 'rollback';

export interface CustodyOptions {
  readonly connections: Connections;
  readonly anchors: Anchors;
  readonly keyring: Watched<Keyring>;
  readonly space: string;
  readonly log: Logger;
  /** Somebody should look: rows that nobody of ours wrote, or a registry that was set back. */
  readonly onAlarm: (alarm: Alarm) => void;
  readonly failpoint: (name: string) => void;
}

/** What a change makes of an inventory; the same object as `next` when nothing is to be written. */
interface Change<Answer> {
  readonly next: Inventory;
  readonly answer: Answer;
  /** Runs in the transaction that writes, or alone when nothing is written. */
  readonly beside?: (session: Session) => Promise<void>;
}

/** What stands of a Capsule in registry and bucket, both believed. */
export interface Settled {
  readonly stored: StoredInventory | undefined;
  readonly held: HeldAnchor | undefined;
}

/** A change holds a connection while it waits for the bucket: some are always left for everybody else. */
const PLACES = { active: 2, queued: 1_000 };

/**
 * The credential sets of Capsules: what is read was checked against its seals and against the anchor, what is written
 * was compared and is anchored before anybody is told. No value is ever kept in memory.
 */
export interface Custody {
  /** The seals of this moment's keyring. */
  seals(): Seals;
  /** The Capsule's inventory in this life. `inside` runs in the statement's transaction, before the rows are read. */
  read(capsule: string, life: (session: Session) => Promise<number>): Promise<Inventory>;
  /** One change; others of the Capsule, on any replica, wait. */
  change<Answer>(
    capsule: string,
    decide: (session: Session, current: (life: number | 'stored') => Inventory) => Promise<Change<Answer>>,
  ): Promise<Answer>;
  /** The values of a set that was read from this custody. The caller drops them when its request ends. */
  reveal(inventory: Inventory, setId: string): Promise<Credential>;
  /** For administrators: registry and anchor under the lock, whatever they say. */
  exclusively<T>(capsule: string, work: (session: Session, tools: ExclusiveTools) => Promise<T>): Promise<T>;
}

interface ExclusiveTools {
  /** Throws `custody_unavailable` for rows that are damaged; does not compare with the anchor. */
  load(): Promise<Settled>;
  anchor(): Promise<HeldAnchor | undefined>;
  write(
    from: StoredInventory | 'whatever is there' | undefined,
    next: Inventory,
    held: HeldAnchor | undefined,
    beside?: (session: Session) => Promise<void>,
  ): Promise<void>;
}

export function createCustody(options: CustodyOptions): Custody {
  const { connections, anchors, keyring, space, log, failpoint } = options;
  const turns = new Turns();
  const places = new ConcurrencyLimit(PLACES);
  const seals = () => createSeals(space, keyring.current());

  function alarm(kind: Alarm, capsule: string, problem: string): ServiceError {
    options.onAlarm(kind);
    log.error({ capsule, custody: kind, problem }, 'custody');
    const code = kind === 'rollback' ? 'custody_rollback' : 'custody_unavailable';
    return new ServiceError(code, `custody: ${problem}`);
  }

  /** Believes rows that this Space sealed for this Capsule, and nothing else. */
  async function believe(capsule: string, raw: unknown): Promise<StoredInventory | undefined> {
    let examined = examine(seals(), capsule, raw);
    if (examined.problem === 'unknown_key') {
      // Another replica may have seen a new key first.
      await keyring.refresh();
      examined = examine(seals(), capsule, raw);
    }
    const { problem } = examined;
    if (problem === undefined) return examined.stored;
    throw alarm(problem === 'unknown_key' ? 'unknown_key' : 'damaged', capsule, problem);
  }

  /**
   * What was stored in this life. A drop leaves nothing in custody before the id is free for the next life, so what an
   * earlier one left is empty; anything else is of a registry whose lives were set back or edited. It must not look like a
   * Capsule that never selected a set, whose objects are in the Space's bucket.
   */
  function inLife(capsule: string, stored: StoredInventory | undefined, life: number): Inventory {
    if (stored === undefined) return emptyInventory(capsule, life);
    if (stored.life === life) return stored;
    if (stored.life < life && isEmpty(stored)) return { ...stored, life };
    throw alarm('rollback', capsule, 'the inventory is of another life');
  }

  function exclusively<T>(
    capsule: string,
    work: (session: Session, tools: ExclusiveTools) => Promise<T>,
  ): Promise<T> {
    const locked = () =>
      connections.session(async (session) => {
        await lockCustody(session, capsule);
        try {
          return await work(session, {
            load: async () => {
              const held = await anchors.read(capsule);
              return { held, stored: await believe(capsule, await readInventory(session, capsule)) };
            },
            anchor: () => anchors.read(capsule),
            write: (from, next, held, beside) => write(session, capsule, from, next, held, beside),
          });
        } finally {
          // A connection that is lost has lost its lock too.
          await unlockCustody(session, capsule).catch(() => undefined);
        }
      });
    return turns.run(capsule, async () => {
      const turn = await places.run(locked);
      if (turn === undefined) throw new ServiceError('unavailable', 'too much at once', { retryAfter: 1 });
      return turn.value;
    });
  }

  /** Registry first, then the anchor, then the answer: a crash between leaves the registry one ahead. */
  async function write(
    session: Session,
    capsule: string,
    from: StoredInventory | 'whatever is there' | undefined,
    next: Inventory,
    held: HeldAnchor | undefined,
    beside: (session: Session) => Promise<void> = async () => undefined,
  ): Promise<void> {
    const stored = seals().sealInventory(next);
    await inTransaction(session, async () => {
      if (from === 'whatever is there') await forgetInventory(session, capsule);
      const before = typeof from === 'object' ? from : { revision: 0, sets: [] };
      if (!(await writeInventory(session, before, stored)))
        throw new ServiceError('stale_generation', 'the inventory changed meanwhile');
      await beside(session);
      failpoint('custody:before-commit');
    });
    failpoint('custody:after-commit');
    await anchor(capsule, stored, held);
    failpoint('custody:after-anchor');
  }

  async function anchor(
    capsule: string,
    stored: StoredInventory,
    held: HeldAnchor | undefined,
  ): Promise<HeldAnchor> {
    const written = await anchors.write(capsule, anchorOf(stored), held?.etag);
    if (written !== undefined) return written;
    // Who wrote it? Nobody may but the holder of the lock, whose late write can only be an older one.
    throw new ServiceError('custody_unavailable', 'the anchor changed meanwhile', { retryAfter: 1 });
  }

  async function settle(capsule: string, tools: ExclusiveTools): Promise<Settled> {
    const { stored, held } = await tools.load();
    const standing = compare(stored, held?.anchor);
    if (standing === 'rollback') throw alarm('rollback', capsule, 'registry and anchor disagree');
    if (standing === 'agree' || stored === undefined) return { stored, held };
    return { stored, held: await anchor(capsule, stored, held) };
  }

  return {
    seals,
    exclusively,
    read: async (capsule, life) => {
      // The anchor first: what is read after it can only be newer.
      const held = await anchors.read(capsule);
      const { now, raw } = await connections.transaction(async (session) => ({
        now: await life(session),
        raw: await readInventory(session, capsule),
      }));
      const stored = await believe(capsule, raw);
      if (compare(stored, held?.anchor) !== 'rollback') return inLife(capsule, stored, now);
      // Changes may have happened between the two reads; under the lock there are none.
      const settled = await exclusively(capsule, (_session, tools) => settle(capsule, tools));
      return inLife(capsule, settled.stored, now);
    },
    change: (capsule, decide) =>
      exclusively(capsule, async (session, tools) => {
        const { stored, held } = await settle(capsule, tools);
        let current: Inventory | undefined;
        const { next, answer, beside } = await decide(session, (life) => {
          current =
            life === 'stored' ? (stored ?? emptyInventory(capsule, 1)) : inLife(capsule, stored, life);
          return current;
        });
        if (next === current) await (beside && inTransaction(session, () => beside(session)));
        else await write(session, capsule, stored, chained(stored, next), held, beside);
        return answer;
      }),
    reveal: async (inventory, setId) => {
      const set = inventory.sets.find((one) => one.setId === setId);
      if (set === undefined) throw new ServiceError('not_found', 'no such set');
      try {
        return await seals().openSet(inventory, set);
      } catch (error) {
        const { message } = alarm('damaged', inventory.capsule, 'a set does not open');
        throw new ServiceError('custody_unavailable', message, { cause: error });
      }
    },
  };
}

/** The next revision of what is stored. */
export function chained(stored: StoredInventory | undefined, next: Inventory): Inventory {
  return { ...next, revision: (stored?.revision ?? 0) + 1, previous: stored?.head ?? GENESIS };
}

export function isEmpty({ sets, selected }: Inventory): boolean {
  return sets.length === 0 && selected === null;
}
