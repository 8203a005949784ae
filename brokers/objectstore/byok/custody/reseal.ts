import type { Logger } from '@space/broker-kit';
import type { Connections } from '@space/broker-kit/postgres';
import type { Custody } from './custody.ts';
import { bySetId } from './inventory.ts';
import { forgetAnswers } from './requests.ts';
import { capsulesToReseal, kidsInUse } from './rows.ts';

/**
 * Brings everything under the primary key: same generations, new envelopes, compare-and-swap like any change. Returns
 * the keys that are still needed afterwards.
 */
export async function resealAll(custody: Custody, connections: Connections, log: Logger): Promise<string[]> {
  await connections.session(forgetAnswers);
  const { primary } = custody.seals();
  for (const capsule of await connections.session((session) => capsulesToReseal(session, primary))) {
    try {
      await resealCapsule(custody, capsule);
      log.info({ capsule, kid: primary }, 'credential sets sealed again');
    } catch (error) {
      // One damaged inventory must not keep the others under an old key.
      log.warn({ capsule, err: error }, 'credential sets not sealed again');
    }
  }
  return connections.session(kidsInUse);
}

function resealCapsule(custody: Custody, capsule: string): Promise<void> {
  return custody.change(capsule, async (change) => {
    const { primary, resealSet } = custody.seals();
    // In whichever incarnation it was stored: nothing that a caller can see changes.
    const inventory = change.read('stored');
    // Another replica was here first.
    const isDone = 'headKid' in inventory && inventory.headKid === primary;
    if (isDone && inventory.sets.every(({ envelope }) => envelope.kid === primary)) return;
    const sets = await Promise.all(
      inventory.sets.map((set) => (set.envelope.kid === primary ? set : resealSet(inventory, set))),
    );
    await change.commit({ ...inventory, sets: bySetId(sets) });
  });
}
