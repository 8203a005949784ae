import { ServiceError } from '@space/broker-kit';
import { inTransaction, type Session } from '@space/broker-kit/postgres';
import { anchorOf, compare } from './anchor.ts';
import type { Anchors, AnchorVersion } from './anchor-store.ts';
import { emptyInventory, type Inventory, nextRevision, type StoredInventory } from './inventory.ts';
import { forgetInventory, readInventory, writeInventory } from './rows.ts';
import type { Seals } from './seals.ts';
import type { Trust } from './trust.ts';

/** The verified inventory of a Capsule in the registry, and its anchor. */
export interface Standings {
  readonly stored: StoredInventory | undefined;
  readonly anchored: AnchorVersion | undefined;
}

/** What a write replaces: exactly what was read, or the rows whatever they contain. */
type Replaced = Standings | { readonly overwrite: true; readonly anchored: AnchorVersion | undefined };

/** Called in the transaction that writes an inventory. */
type Note = (session: Session) => Promise<void>;

export interface LockedParts {
  readonly seals: () => Seals;
  readonly trust: Trust;
  readonly anchors: Anchors;
  readonly failpoint: (name: string) => void;
}

/** The inventory of one Capsule for the holder of its lock. */
export class LockedInventory {
  readonly session: Session;
  readonly #capsule: string;
  readonly #parts: LockedParts;

  constructor(session: Session, capsule: string, parts: LockedParts) {
    this.session = session;
    this.#capsule = capsule;
    this.#parts = parts;
  }

  /** Reads both without comparing them. @throws ServiceError `custody_unavailable` for damaged rows */
  async load(): Promise<Standings> {
    const anchored = await this.readAnchor();
    const raw = await readInventory(this.session, this.#capsule);
    return { anchored, stored: await this.#parts.trust.verifyStored(this.#capsule, raw) };
  }

  readAnchor(): Promise<AnchorVersion | undefined> {
    return this.#parts.anchors.read(this.#capsule);
  }

  /**
   * Reads both, and anchors a revision whose anchor is missing after a crash. @throws ServiceError `custody_rollback`
   * if they differ otherwise
   */
  async settle(): Promise<Standings> {
    const { stored, anchored } = await this.load();
    const standing = compare(stored, anchored?.anchor);
    if (standing === 'rollback')
      throw this.#parts.trust.alarm('rollback', this.#capsule, 'registry and anchor disagree');
    if (standing === 'agree' || stored === undefined) return { stored, anchored };
    return { stored, anchored: await this.#anchor(stored, anchored) };
  }

  /**
   * Writes the registry, then the anchor, before the caller gets an answer. After a crash in between, the registry is
   * one revision ahead.
   */
  async write(next: Inventory, replaced: Replaced, note: Note = async () => undefined): Promise<void> {
    const { seals, failpoint } = this.#parts;
    const { session } = this;
    const sealed = seals().sealInventory(next);
    await inTransaction(session, async () => {
      if ('overwrite' in replaced) await forgetInventory(session, this.#capsule);
      const before = 'overwrite' in replaced ? undefined : replaced.stored;
      if (!(await writeInventory(session, before ?? { revision: 0, sets: [] }, sealed)))
        throw new ServiceError('stale_generation', 'the inventory changed in the meantime');
      await note(session);
      failpoint('custody:before-commit');
    });
    failpoint('custody:after-commit');
    await this.#anchor(sealed, replaced.anchored);
    failpoint('custody:after-anchor');
  }

  async #anchor(stored: StoredInventory, over: AnchorVersion | undefined): Promise<AnchorVersion> {
    const written = await this.#parts.anchors.write(this.#capsule, anchorOf(stored), over?.etag);
    if (written !== undefined) return written;
    // Only the holder of the lock writes the anchor, and a late write of an earlier holder can only be older.
    throw new ServiceError('custody_unavailable', 'the anchor changed in the meantime', { retryAfter: 1 });
  }

  /** Begins a change of an inventory whose registry and anchor agree. */
  async beginChange(): Promise<InventoryChange> {
    const { stored, anchored } = await this.settle();
    const capsule = this.#capsule;
    let read: Inventory | undefined;
    return {
      session: this.session,
      read: (incarnation) => {
        read =
          incarnation === 'stored'
            ? (stored ?? emptyInventory(capsule, 1))
            : this.#parts.trust.forIncarnation(capsule, stored, incarnation);
        return read;
      },
      commit: async (next, note) => {
        if (next !== read) await this.write(nextRevision(stored, next), { stored, anchored }, note);
        else if (note !== undefined) await inTransaction(this.session, () => note(this.session));
      },
    };
  }
}

/** One change of a Capsule's inventory: read it, derive its successor, commit that. */
export interface InventoryChange {
  readonly session: Session;
  /** What the Capsule has in this incarnation, or in the stored one. */
  read(incarnation: number | 'stored'): Inventory;
  /** Writes the successor and calls `note`. If it is the same object that was read, only `note` is called. */
  commit(next: Inventory, note?: Note): Promise<void>;
}
