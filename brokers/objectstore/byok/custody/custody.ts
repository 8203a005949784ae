import { type Logger, ServiceError, type Watched } from '@space/broker-kit';
import type { Keyring } from '@space/broker-kit/custody';
import type { Connections, Session } from '@space/broker-kit/postgres';
import { compare } from './anchor.ts';
import type { Anchors } from './anchor-store.ts';
import type { Inventory } from './inventory.ts';
import { createLock } from './lock.ts';
import { type InventoryChange, LockedInventory } from './locked.ts';
import { readInventory } from './rows.ts';
import { type Credential, createSeals, type Seals } from './seals.ts';
import { type Alarm, createTrust } from './trust.ts';

export interface CustodyOptions {
  readonly connections: Connections;
  readonly anchors: Anchors;
  readonly keyring: Watched<Keyring>;
  readonly space: string;
  readonly log: Logger;
  /** Called when a person should investigate: rows that this Space did not write, or a registry that was set back. */
  readonly onAlarm: (alarm: Alarm) => void;
  readonly failpoint: (name: string) => void;
}

/**
 * The credential sets of Capsules. What is read was checked against its seals and the anchor; what is written was
 * compared, and is anchored before the caller gets an answer. No secret value is kept in memory.
 */
export interface Custody {
  /** Seals with the present keyring. */
  seals(): Seals;
  /** The Capsule's inventory. `incarnationOf` runs in the transaction that reads the rows, before they are read. */
  read(capsule: string, incarnationOf: (session: Session) => Promise<number>): Promise<Inventory>;
  /** Runs one change; other changes of the Capsule, on any replica, wait. */
  change<Answer>(capsule: string, work: (change: InventoryChange) => Promise<Answer>): Promise<Answer>;
  /** The secret values of a set that this custody has read. The caller drops them when its request ends. */
  reveal(inventory: Inventory, setId: string): Promise<Credential>;
  /** For administrators: registry and anchor under the lock, whatever their state. */
  exclusively<T>(capsule: string, work: (locked: LockedInventory) => Promise<T>): Promise<T>;
}

export function createCustody(options: CustodyOptions): Custody {
  const { connections, anchors, keyring, space, failpoint } = options;
  const seals = () => createSeals(space, keyring.current());
  const trust = createTrust({ ...options, seals });
  const lock = createLock(connections);
  const exclusively: Custody['exclusively'] = (capsule, work) =>
    lock(capsule, (session) =>
      work(new LockedInventory(session, capsule, { seals, trust, anchors, failpoint })),
    );

  return {
    seals,
    exclusively,
    read: async (capsule, incarnationOf) => {
      // The anchor is read first, so that the rows, which are read later, can only be newer.
      const anchored = await anchors.read(capsule);
      const { incarnation, raw } = await connections.transaction(async (session) => ({
        incarnation: await incarnationOf(session),
        raw: await readInventory(session, capsule),
      }));
      let stored = await trust.verifyStored(capsule, raw);
      // Changes may have happened between the two reads, so the comparison is repeated under the lock. What is not
      // anchored yet could still be set back undetected, so nobody learns of it before.
      if (compare(stored, anchored?.anchor) !== 'agree')
        ({ stored } = await exclusively(capsule, (locked) => locked.settle()));
      return trust.forIncarnation(capsule, stored, incarnation);
    },
    change: (capsule, work) => exclusively(capsule, async (locked) => work(await locked.beginChange())),
    reveal: async (inventory, setId) => {
      const set = inventory.sets.find((one) => one.setId === setId);
      if (set === undefined) throw new ServiceError('not_found', 'no such set');
      try {
        return await seals().openSet(inventory, set);
      } catch (error) {
        const { message } = trust.alarm('damaged', inventory.capsule, 'a set does not open');
        throw new ServiceError('custody_unavailable', message, { cause: error });
      }
    },
  };
}
