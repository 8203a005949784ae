import type { TestBroker } from '../../../testing/broker.ts';
import { type ByokFixture, grantOf, type Home } from './byok-fixture.ts';

export interface GrantRevocation {
  readonly requests: number;
  /** Requests that were served with what was not selected any more when they began, or from another bucket. */
  readonly stale: number;
  readonly served: number;
  readonly refused: number;
  readonly changes: Readonly<Record<'rotate' | 'select' | 'delete' | 'create', number>>;
}

/** What a Capsule has selected from one change to the next, and a grant for exactly that; none for the Space's bucket. */
interface Era {
  readonly set: string;
  readonly generation: number;
  readonly bucket: string;
  readonly grant: string | undefined;
}

const KEY = 'which';
const MANAGED: Era = { set: 'managed', generation: 0, bucket: 'space', grant: undefined };
/** How many changes ago what a reader uses was right. */
const AGES = [0, 1, 2, 5];
/** Readers for each replica. */
const READERS = 3;

/**
 * Changes what a Capsule has selected again and again, while Assistants ask both replicas for one object with grants of
 * now and of earlier. Each bucket holds its own name, so an answer tells where it came from; it is held against all
 * that can have been selected between the beginning of its request and its end.
 */
export async function checkGrantRevocation(
  fixture: ByokFixture,
  { replicas, wanted }: { readonly replicas: readonly TestBroker[]; readonly wanted: number },
): Promise<GrantRevocation> {
  const home = await fixture.home('revocation');
  const { credentials } = home;
  const changes = { rotate: 0, select: 0, delete: 0, create: 0 };
  const done = async (what: keyof typeof changes, call: ReturnType<typeof credentials.select>) => {
    const reply = await call;
    if (reply.status !== 200) throw new Error(`${what}: ${reply.text}`);
    changes[what] += 1;
    return reply.json;
  };

  // Eras that were begun, and of these the last that was answered.
  const eras: Era[] = [MANAGED];
  let answered = 0;
  const begin = async (era: Omit<Era, 'grant'>): Promise<void> => {
    const { set: set_id, generation } = era;
    const grant =
      set_id === 'managed' ? undefined : await grantOf(fixture.issuer, home, { set_id, generation });
    eras.push({ ...era, grant });
  };
  const finish = () => {
    answered = eras.length - 1;
  };

  let inventory = 0;
  const create = async (name: 'one' | 'two') => {
    const fields = fixture.own.fields();
    const json = await done('create', credentials.create(name, fields, inventory));
    inventory = json.inventory_generation;
    return { name, fields, setId: json.set_id as string, generation: 1 };
  };
  const select = async (set: Awaited<ReturnType<typeof create>> | undefined) => {
    await begin(
      set === undefined
        ? { set: 'managed', generation: 0, bucket: 'space' }
        : { set: set.setId, generation: set.generation, bucket: set.name },
    );
    inventory = (await done('select', credentials.select(set?.setId ?? null, inventory)))
      .inventory_generation;
    finish();
  };
  const write = async (name: string) => {
    const { grant } = eras.at(-1) ?? { grant: undefined };
    const reply = await home.at(fixture.broker, grant).put(KEY, name);
    if (reply.status !== 200) throw new Error(`put: ${reply.text}`);
  };

  await write('space');
  const sets = { one: await create('one'), two: await create('two') };
  for (const set of [sets.one, sets.two]) {
    await select(set);
    await write(set.name);
  }

  let [requests, stale, served, refused, stop] = [0, 0, 0, 0, false];
  const failures: unknown[] = [];
  const read = async (replica: TestBroker, reader: number) => {
    for (let turn = reader; !stop; turn += 1) {
      const from = answered;
      // Tries the current set, the previous one, and an old one.
      const era = eras[Math.max(0, from - (AGES[turn % AGES.length] ?? 0))] ?? MANAGED;
      const outcome = await ask(home, replica, era);
      const possible = eras.slice(from);
      const isSame = (one: Era | undefined) => one?.set === era.set && one.generation === era.generation;
      const right = outcome === 'empty' || outcome === era.bucket;
      if (outcome !== 'refused' && !(right && possible.some(isSame))) stale += 1;
      // Nothing changed from its beginning to its end, and it was turned away with the right grant.
      if (outcome === 'refused' && possible.length === 1 && isSame(possible[0])) stale += 1;
      if (outcome === 'refused') refused += 1;
      else served += 1;
      requests += 1;
    }
  };
  const readers = replicas.flatMap((replica) =>
    Array.from({ length: READERS }, (_, reader) =>
      read(replica, reader).catch((error: unknown) => {
        failures.push(error);
        stop = true;
      }),
    ),
  );
  try {
    for (let turn = 0; requests < wanted && !stop; turn += 1) {
      const [set, other] = turn % 2 === 0 ? [sets.one, sets.two] : [sets.two, sets.one];
      await select(set);
      await begin({ set: set.setId, generation: set.generation + 1, bucket: set.name });
      set.generation = (
        await done('rotate', credentials.rotate(set.setId, set.fields, set.generation))
      ).generation;
      inventory += 1;
      finish();
      if (turn % 3 === 2) await select(undefined);
      if (turn % 5 === 4) await replace(other);
    }
  } finally {
    stop = true;
    await Promise.all(readers);
  }
  if (failures.length > 0) throw failures[0];
  return { requests, stale, served, refused, changes };

  /** The set that is not selected goes, and another takes its name with a bucket of its own. */
  async function replace(old: typeof sets.one): Promise<void> {
    const deleted = await done('delete', credentials.delete(old.setId, old.generation));
    inventory = deleted.inventory_generation;
    const fresh = await create(old.name);
    sets[old.name] = fresh;
    await select(fresh);
    await write(fresh.name);
  }
}

/** The name of the bucket that answered, or `empty` for one that has not got its name yet; `refused` for what was turned away as it should be. */
async function ask(home: Home, replica: TestBroker, { grant }: Era): Promise<string> {
  const reply = await home.at(replica, grant).get(KEY);
  if (reply.status === 200) return reply.text;
  if (reply.status === 409 && reply.json.error.code === 'stale_grant') return 'refused';
  // Between select and write a new bucket has nothing yet; that says nothing of which it was.
  if (reply.status === 404) return 'empty';
  throw new Error(`get: ${reply.status} ${reply.text}`);
}
