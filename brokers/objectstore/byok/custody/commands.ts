import { ServiceError } from '@space/broker-kit';
import type { Connections } from '@space/broker-kit/postgres';
import { audit } from '@space/broker-kit/principals';
import { compare } from './anchor.ts';
import type { Custody } from './custody.ts';
import { discard } from './discard.ts';
import { isEmpty } from './inventory.ts';
import { acceptRestore } from './restore.ts';
import { readIncarnation } from './rows.ts';

export interface CustodyState {
  readonly capsule: string;
  readonly state: 'agree' | 'ahead' | 'rollback' | 'damaged' | 'unavailable';
  readonly sets?: number;
  readonly inventory_generation?: number;
}

/** The relation between registry and anchor of every Capsule that has or had credential sets. */
export async function custodyStates(custody: Custody, connections: Connections): Promise<CustodyState[]> {
  const rows = await connections.session((session) =>
    session.run<{ capsule: string }>(
      'list credential inventories',
      'SELECT capsule_id AS capsule FROM broker.capsule ORDER BY 1',
    ),
  );
  const states: CustodyState[] = [];
  for (const { capsule } of rows) states.push(await stateOf(custody, capsule));
  return states;
}

function stateOf(custody: Custody, capsule: string): Promise<CustodyState> {
  return custody
    .exclusively<CustodyState>(capsule, async (locked) => {
      const { stored, anchored } = await locked.load();
      const state = compare(stored, anchored?.anchor);
      if (stored === undefined) return { capsule, state };
      // An inventory of an earlier incarnation is trusted only if it is as a drop leaves it.
      if (
        stored.incarnation !== (await readIncarnation(locked.session, capsule)) &&
        !(isEmpty(stored) && state === 'agree')
      )
        return { capsule, state: 'rollback' };
      return { capsule, state, sets: stored.sets.length, inventory_generation: stored.generation };
    })
    .catch((error: unknown) => {
      if (!(error instanceof ServiceError)) throw error;
      return { capsule, state: error.retryAfter === undefined ? 'damaged' : 'unavailable' };
    });
}

/** `restore discard CAPSULE`: discards everything that custody has of the Capsule. */
export async function discardCommand(custody: Custody, capsule: string, traceId: string) {
  await discard(custody, capsule, (session) => {
    const operation = 'administrator.custody.discard';
    return audit(session, { traceId, operation, authority: 'administrator', capsule, outcome: 'discarded' });
  });
  return { discarded: capsule };
}

/** `restore accept CAPSULE`: continues with the restored inventory. Throws if there is nothing to accept. */
export async function acceptCommand(custody: Custody, capsule: string, traceId: string) {
  if (!(await acceptRestore(custody, capsule, traceId)))
    throw new ServiceError('conflict', 'registry and anchor agree, so there is nothing to accept');
  return { accepted: capsule };
}
