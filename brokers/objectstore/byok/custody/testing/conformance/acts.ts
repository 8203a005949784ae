/** Callers who do at random what a Capsule may do with its credential sets. */
import type { Random } from '../../../../../../testing/random.ts';
import { client, type Reply } from '../../../../testing/broker.ts';
import { credentialsOf, type OwnStore } from '../../../credentials/testing/byok.ts';
import type { CustodyChecker } from './checker.ts';
import type { Shown } from './rules.ts';

export interface Acting {
  /** One of the running brokers, by a number. */
  readonly url: (one: number) => string;
  readonly store: Pick<OwnStore, 'fields'>;
  readonly checker: Pick<CustodyChecker, 'told' | 'floorOf'>;
  readonly random: Random;
}

const SETS = 3;

/** One Capsule with its principal. Each act asks once, of whichever broker, and tells the checker what it was told. */
export function capsuleOf(capsule: string, token: string, { url, store, checker, random }: Acting) {
  const fields = store.fields();
  /** Its last answer. */
  let known: Shown = { generation: 0, selected: null, sets: [] };
  let names = 0;
  /** Its last call got no answer, and may have changed something or not. */
  let unanswered = false;

  async function act(): Promise<void> {
    const own = credentialsOf(client(url(random(8)), token), capsule);
    const floor = checker.floorOf(capsule);
    const one = known.sets[random(known.sets.length || 1)];
    const kind = random(200);
    // Now and then it expects what was, or what a call without an answer has made.
    const expected = known.generation + (unanswered && random(2) === 0 ? 1 : random(20) === 0 ? -1 : 0);
    unanswered = true;
    const told = (reply: Reply, more: Partial<Shown> = {}) => {
      const { status, json } = reply;
      unanswered = false;
      const at = Date.now();
      if (json?.error?.code === 'custody_rollback') checker.told({ capsule, floor, at, shown: 'rollback' });
      if (status !== 200) return;
      const shown = { generation: json.inventory_generation as number, ...more };
      checker.told({ capsule, floor, at, shown });
      known = { ...known, ...shown };
    };
    if (one === undefined || (kind < 2 && known.sets.length < SETS)) {
      names += 1;
      told(await own.create(`n${names}`, fields, expected));
    } else if (kind < 4) told(await own.rotate(one.setId, fields, one.generation));
    else if (kind < 5) told(await own.delete(one.setId, one.generation));
    else if (kind < 130) {
      const selected = random(4) === 0 ? null : one.setId;
      const reply = await own.select(selected, expected);
      told(reply, { selected });
      if (reply.status === 200) return;
    }
    await own.list().then((reply) => told(reply, reply.status === 200 ? shownIn(reply) : {}));
  }

  /** A killed broker answers nothing: registry and bucket show the outcome. */
  return { capsule, act: () => act().catch(() => undefined) };
}

function shownIn({ json }: Reply): Shown {
  const sets = json.sets as { set_id: string; generation: number }[];
  return {
    ...{ generation: json.inventory_generation, selected: json.selected },
    sets: sets.map(({ set_id: setId, generation }) => ({ setId, generation })),
  };
}
