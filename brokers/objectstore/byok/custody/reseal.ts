import type { Logger } from '@space/broker-kit';
import type { Connections, Session } from '@space/broker-kit/postgres';
import type { Custody } from './custody.ts';
import { bySetId } from './inventory.ts';
import { forgetAnswers } from './requests.ts';

/**
 * Seals everything again with the primary key: with the same generations, new envelopes, and compare-and-swap as for
 * every change. Returns the keys that are still needed.
 */
export async function resealAll(custody: Custody, connections: Connections, log: Logger): Promise<string[]> {
  await connections.session(forgetAnswers);
  const { primary } = custody.seals();
  for (const capsule of await connections.session((session) => capsulesToReseal(session, primary))) {
    try {
      await resealCapsule(custody, capsule);
      log.info({ capsule, kid: primary }, 'credential sets sealed again');
    } catch (error) {
      // A damaged inventory does not prevent the others from being sealed again.
      log.warn({ capsule, err: error }, 'credential sets not sealed again');
    }
  }
  return connections.session(kidsInUse);
}

function resealCapsule(custody: Custody, capsule: string): Promise<void> {
  return custody.change(capsule, async (change) => {
    const { primary, resealSet } = custody.seals();
    // The incarnation does not matter, since callers see no change.
    const inventory = change.read('stored');
    // Another replica has done it.
    const isDone = 'headKid' in inventory && inventory.headKid === primary;
    if (isDone && inventory.sets.every(({ envelope }) => envelope.kid === primary)) return;
    const sets = await Promise.all(
      inventory.sets.map((set) => (set.envelope.kid === primary ? set : resealSet(inventory, set))),
    );
    await change.commit({ ...inventory, sets: bySetId(sets) });
  });
}

/** The keys that stored data needs. */
export async function kidsInUse(session: Session): Promise<string[]> {
  const rows = await session.run<{ kid: string }>(
    'list custody keys in use',
    `SELECT kid FROM broker.credential_set UNION SELECT head_kid FROM broker.credential_inventory
     UNION SELECT kid FROM broker.credential_request ORDER BY 1`,
  );
  return rows.map(({ kid }) => kid);
}

/** Capsules with data that is sealed with another key than the primary one. */
async function capsulesToReseal(session: Session, primary: string): Promise<string[]> {
  const rows = await session.run<{ capsule: string }>(
    'list inventories to seal again',
    `SELECT capsule_id AS capsule FROM broker.credential_inventory WHERE head_kid <> $1
     UNION SELECT capsule_id FROM broker.credential_set WHERE kid <> $1 ORDER BY 1`,
    [primary],
  );
  return rows.map(({ capsule }) => capsule);
}
