import fc from 'fast-check';

/**
 * A sequential model of the broker. Drops have a beginning and an end, between which others may come; everything
 * else happens at one moment. What callers saw side by side must be explained by some order of these moments.
 */

export interface Operation {
  /** `hostile`: a tenant does its worst with a URL that it was given, which nobody else must notice. */
  readonly kind: 'provision' | 'finalize' | 'create' | 'drop' | 'dropAll' | 'hostile';
  readonly capsule: number;
  readonly principal: number;
  /** Used by `create` and `drop`. */
  readonly app: number;
}

/** Batches of operations; those of one batch run side by side. */
export type Schedule = readonly (readonly Operation[])[];

export const PRINCIPALS = 3;
const index = (below: number) => fc.nat(below - 1);

const kind = fc.oneof(
  { weight: 2, arbitrary: fc.constant('provision' as const) },
  { weight: 4, arbitrary: fc.constant('create' as const) },
  { weight: 3, arbitrary: fc.constant('drop' as const) },
  { weight: 2, arbitrary: fc.constant('dropAll' as const) },
  { weight: 2, arbitrary: fc.constant('finalize' as const) },
  { weight: 1, arbitrary: fc.constant('hostile' as const) },
);
/** Mostly a Capsule's own principal on few names, or nearly everything would be refused. */
const operation: fc.Arbitrary<Operation> = fc
  .record({
    kind,
    capsule: fc.oneof({ weight: 4, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) }),
    stranger: fc.oneof({ weight: 5, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: index(PRINCIPALS) }),
    app: fc.oneof({ weight: 3, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.constant(1) }),
  })
  .map(({ stranger, ...rest }) => ({ ...rest, principal: (rest.capsule + stranger) % PRINCIPALS }));

/** Starts with a Capsule, so that few schedules are nothing but refusals. */
export function schedules(count: number, seed: number): Schedule[] {
  const first: Operation = { kind: 'provision', capsule: 0, principal: 0, app: 0 };
  const batch = fc.oneof(
    fc.array(operation, { minLength: 1, maxLength: 1 }),
    fc.array(operation, { minLength: 2, maxLength: 3 }),
  );
  const all = fc
    .array(batch, { minLength: 2, maxLength: 5, size: 'max' })
    .map((batches) => [[first], ...batches]);
  return fc.sample(all, { numRuns: count, seed });
}

interface Database {
  state: 'ready' | 'dropping' | 'dropped';
  /** Counts incarnations and passwords; stands for the URL. */
  generation: number;
  withCapsule: boolean;
}

interface Capsule {
  state: 'active' | 'dropping' | 'retired' | 'finalized';
  incarnation: number;
  principal: number | null;
  databases: Record<string, Database & { incarnation: number }>;
}

export interface World {
  capsules: Record<number, Capsule>;
  retired: number[];
}

/** What a caller may see, with databases named by the model: capsule, app and generation. */
export type Seen = string;

const OWN = 'own';

function perform(world: World, op: Operation, moment: 'begin' | 'end', begun: Seen | undefined): Seen {
  if (op.kind === 'hostile') return 'unnoticed';
  const capsule = world.capsules[op.capsule];
  if (op.kind === 'provision') return provision(world, op.capsule, op.principal);
  if (op.kind === 'finalize') {
    if (capsule === undefined) return '404';
    if (capsule.state === 'active' || capsule.state === 'dropping') return '409';
    capsule.state = 'finalized';
    return 'finalized';
  }
  if (moment === 'end') return end(world, op, begun ?? '');
  if (capsule?.principal !== op.principal) return '403';
  if (capsule.state === 'dropping' && op.kind !== 'dropAll') return '403';
  if (op.kind === 'dropAll') {
    if (capsule.state === 'active') {
      for (const database of Object.values(capsule.databases)) {
        if (database.state !== 'dropped') Object.assign(database, { state: 'dropping', withCapsule: true });
      }
      capsule.state = 'dropping';
    }
    return `begun ${capsule.incarnation}`;
  }
  const app = `app${op.app}`;
  if (op.kind === 'create') return ensure(capsule, op.capsule, app);
  const database = capsule.databases[app];
  if (database === undefined) return '404';
  if (database.state === 'dropped' && database.incarnation !== capsule.incarnation) return '404';
  if (database.state === 'ready') database.state = 'dropping';
  const name = `${op.capsule}/${app}/${database.generation}`;
  return database.state === 'dropped' ? `absent ${name}` : `dropped ${name}`;
}

function end(world: World, op: Operation, begun: Seen): Seen {
  const capsule = world.capsules[op.capsule];
  if (capsule === undefined) return begun;
  if (op.kind === 'drop') {
    const [, name = ''] = begun.split(' ');
    const [, app = '', generation] = name.split('/');
    const database = capsule.databases[app];
    if (database?.state === 'dropping' && String(database.generation) === generation)
      database.state = 'dropped';
    return begun;
  }
  const incarnation = Number(begun.split(' ')[1]);
  if (capsule.state === 'dropping' && capsule.incarnation === incarnation) {
    for (const database of Object.values(capsule.databases)) database.state = 'dropped';
    if (capsule.principal !== null) world.retired.push(capsule.principal);
    Object.assign(capsule, { state: 'retired', principal: null });
  }
  const listed = Object.entries(capsule.databases)
    .filter(([, database]) => database.withCapsule && database.incarnation === incarnation)
    .map(([app, { generation }]) => `${op.capsule}/${app}/${generation}`);
  return `list ${listed.sort().join(' ')}`;
}

function provision(world: World, id: number, principal: number): Seen {
  const capsule = world.capsules[id];
  if (capsule !== undefined && capsule.state !== 'finalized') {
    return capsule.state === 'active' && capsule.principal === principal ? ensure(capsule, id, OWN) : '409';
  }
  const taken = Object.values(world.capsules).some((other) => other.principal === principal);
  if (taken || world.retired.includes(principal)) return '409';
  const reborn: Capsule = {
    state: 'active',
    incarnation: (capsule?.incarnation ?? 0) + 1,
    principal,
    databases: capsule?.databases ?? {},
  };
  world.capsules[id] = reborn;
  return ensure(reborn, id, OWN);
}

function ensure(capsule: Capsule, id: number, app: string): Seen {
  const database = capsule.databases[app];
  if (database?.state === 'dropping') return '409';
  if (database?.state === 'ready') return `found ${id}/${app}/${database.generation}`;
  const generation = (database?.generation ?? 0) + 1;
  capsule.databases[app] = {
    state: 'ready',
    generation,
    incarnation: capsule.incarnation,
    withCapsule: false,
  };
  return `made ${id}/${app}/${generation}`;
}

/** Every world that can follow, each with what the callers of the batch would have seen in it. */
export function outcomes(
  world: World,
  batch: readonly Operation[],
): Map<string, { world: World; seen: Seen[] }> {
  const found = new Map<string, { world: World; seen: Seen[] }>();
  const visited = new Set<string>();
  const explore = (at: World, done: readonly (0 | 1 | 2)[], seen: readonly Seen[]) => {
    const key = JSON.stringify([at, done, seen]);
    if (visited.has(key)) return;
    visited.add(key);
    if (done.every((moments) => moments === 2)) {
      found.set(key, { world: at, seen: [...seen] });
      return;
    }
    for (const [i, op] of batch.entries()) {
      if (done[i] === 2) continue;
      const next = structuredClone(at);
      const result = perform(next, op, done[i] === 0 ? 'begin' : 'end', seen[i]);
      const lasting =
        done[i] === 0 && /^(dropped|begun) /.test(result) && (op.kind === 'drop' || op.kind === 'dropAll');
      explore(next, done.with(i, lasting ? 1 : 2), seen.with(i, result));
    }
  };
  explore(
    world,
    batch.map(() => 0 as const),
    batch.map(() => ''),
  );
  return found;
}
