import { randomBytes } from 'node:crypto';
import { newToken } from '../../../brokers/kit/index.ts';
import { credentialsOf, type OwnStore } from '../../../brokers/objectstore/byok/credentials/testing/byok.ts';
import type { Client, Reply } from '../../../brokers/objectstore/testing/broker.ts';
import { ask } from './ask.ts';
import type { Attempt, Watch } from './watch.ts';

/** One Capsule whose credential sets change continuously, and an Assistant of it that is created and dropped. */
export interface CredentialChanger {
  readonly changes: Record<'sets' | 'principals', number>;
  /** Answers that turned out untrue. */
  readonly lost: string[];
  run(ended: () => boolean): Promise<void>;
}

const CAPSULE = 'keeper';

/** Each change goes through another broker, which anchors it in the bucket before it answers. */
export function createCredentialChanger(options: {
  /** Clients with the Capsule's principal, one for each broker. */
  readonly clients: readonly Client[];
  /** The data listeners of all brokers. */
  readonly bases: readonly string[];
  readonly store: OwnStore;
  readonly watch: Watch;
}): CredentialChanger {
  const { clients, bases, store, watch } = options;
  const changes = { sets: 0, principals: 0 };
  const lost: string[] = [];
  let turn = 0;
  const way = (): Client => {
    turn += 1;
    const client = clients[turn % clients.length];
    if (client === undefined) throw new Error('no broker');
    return client;
  };
  const own = () => credentialsOf(way(), CAPSULE);
  const insist = async (
    what: string,
    call: () => Promise<Reply>,
    done?: (reply: Reply) => Promise<boolean>,
  ) => (await watch.insist('credentials', what, () => outcomeOf(call, done))).value;
  const fields = store.fields();
  /** The generation of the inventory after the last answered change. */
  let generation = 0;

  const list = async () => (await insist('list sets', () => own().list())).json;
  const answered = (reply: Reply) => {
    generation = reply.json.inventory_generation;
    changes.sets += 1;
    return reply.json;
  };
  /** A change without an idempotency key: a repeated request may be answered that it is already done. */
  const change = async (what: string, call: () => Promise<Reply>) => {
    const before = generation;
    const reply = await insist(what, call, async () => (await list()).inventory_generation > before);
    if (reply.status === 200) answered(reply);
    else generation = (await list()).inventory_generation;
  };
  const expectSets = async (expected: readonly string[], selected: string | null) => {
    const found = await list();
    const ids = found.sets.map((set: { set_id: string }) => set.set_id).sort();
    const holds =
      found.inventory_generation === generation &&
      found.selected === selected &&
      JSON.stringify(ids) === JSON.stringify([...expected].sort());
    if (!holds)
      lost.push(
        `credential sets are ${JSON.stringify(found)} instead of ${JSON.stringify({ expected, selected, generation })}`,
      );
  };
  const create = async (name: string): Promise<string> => {
    const [key, over] = [randomBytes(16).toString('hex'), generation];
    return answered(await insist(`create ${name}`, () => own().create(name, fields, over, key))).set_id;
  };

  const changeSets = async (ended: () => boolean) => {
    const kept = await create('kept');
    let ownGeneration = 1;
    while (!ended()) {
      await change('select', () => own().select(kept, generation));
      await expectSets([kept], kept);
      const [key, over] = [randomBytes(16).toString('hex'), ownGeneration];
      ownGeneration = answered(
        await insist('rotate', () => own().rotate(kept, fields, over, key)),
      ).generation;
      const other = await create('other');
      await expectSets([kept, other], kept);
      await change('select none', () => own().select(null, generation));
      await change('delete', () => own().delete(other, 1));
      await expectSets([kept], null);
    }
  };

  /** Creates and drops an Assistant; the end of its principal is anchored, too. */
  const comeAndGo = async (ended: () => boolean) => {
    for (let i = 1; !ended(); i += 1) {
      const [app, token] = [`guest-${i}`, newToken('osw').reveal()];
      await insist(`create ${app}`, () => way().create(CAPSULE, app, token));
      await insist(`drop ${app}`, () => way().drop(CAPSULE, app));
      changes.principals += 2;
      for (const base of bases) {
        const outcome = await ask(base, token, { method: 'GET', path: '/v1/usage' });
        if ('value' in outcome) lost.push(`${app} was dropped, but its token is still accepted`);
      }
    }
  };

  return {
    changes,
    lost,
    run: async (ended) => {
      await Promise.all([changeSets(ended), comeAndGo(ended)]);
    },
  };
}

async function outcomeOf(
  call: () => Promise<Reply>,
  done: ((reply: Reply) => Promise<boolean>) | undefined,
): Promise<Attempt<Reply>> {
  try {
    const reply = await call();
    if (reply.status === 200) return { value: reply };
    // 404 and 409 mean that an earlier attempt has made the change.
    if ((reply.status === 404 || reply.status === 409) && done !== undefined && (await done(reply)))
      return { value: reply };
    const retryAfter = reply.headers.get('retry-after');
    return {
      refused: {
        status: reply.status,
        code: reply.json.error.code,
        retryAfter: retryAfter === null ? undefined : Number(retryAfter),
      },
    };
  } catch (error) {
    return { cut: String(error) };
  }
}
