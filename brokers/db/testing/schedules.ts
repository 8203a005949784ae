import { newToken } from '@space/broker-kit';
import type pg from 'pg';
import { client, type Reply } from './broker.ts';
import { type Operation, outcomes, PRINCIPALS, type Schedule, type Seen, type World } from './model.ts';
import { connect } from './postgres.ts';

/** Runs schedules against brokers, and looks for an order of moments in the model that explains what callers saw. */

/** Runs a schedule against a broker; returns what no order of moments explains, or nothing. */
async function contradicts(
  urls: readonly string[],
  provisioner: string,
  schedule: Schedule,
  prefix: string,
): Promise<string | undefined> {
  const tokens = Array.from({ length: PRINCIPALS }, () => newToken('dbp').reveal());
  let names = new Map<string, string>();
  let worlds: World[] = [{ capsules: {}, retired: [] }];
  const held: pg.Client[] = [];
  try {
    for (const [step, batch] of schedule.entries()) {
      const replies = await Promise.all(
        batch.map((op, i) =>
          op.kind === 'hostile'
            ? rage(urlsOf(names, op.capsule), held)
            : call(urls[(step + i) % urls.length] ?? '', provisioner, tokens, op, prefix),
        ),
      );
      const possible = worlds.flatMap((world) => [...outcomes(world, batch).values()]);
      const matching = possible.flatMap(({ world, seen }) => {
        const learned = explainsAll(seen, replies, names);
        return learned === undefined ? [] : [{ world, learned }];
      });
      const [some] = matching;
      if (some === undefined) {
        const got = replies.map((reply) => `${reply?.status} ${reply?.text}`);
        return `step ${step} of ${JSON.stringify(schedule)}: got ${got.join(' | ')}`;
      }
      names = some.learned;
      worlds = [...new Map(matching.map(({ world }) => [JSON.stringify(world), world])).values()];
    }
    return undefined;
  } finally {
    for (const session of held) await session.end().catch(() => undefined);
  }
}

/** The URLs that a Capsule was given, newest first; some are no longer valid. */
function urlsOf(names: ReadonlyMap<string, string>, capsule: number): string[] {
  const known = [...names].filter(([model]) => model.startsWith(`${capsule}/`) && model.endsWith(' url'));
  return known.map(([, url]) => url).reverse();
}

const RAGE = [
  'SET idle_in_transaction_session_timeout = 0',
  // Two of one role would wait for each other until the watch ends the first, after minutes; nobody else waits for them.
  "SET lock_timeout = '1s'",
  'CREATE TABLE IF NOT EXISTS mine (n int)',
  // The newest roles include those of the schedules that run now.
  `DO $$ DECLARE other text; BEGIN
     FOR other IN SELECT rolname FROM pg_roles WHERE rolname ~ '^spc_' ORDER BY oid DESC LIMIT 12 LOOP
       BEGIN EXECUTE format('GRANT SELECT ON mine TO %I', other); EXCEPTION WHEN OTHERS THEN NULL; END;
     END LOOP;
   END $$`,
  'BEGIN',
  `DO $$ BEGIN EXECUTE format('ALTER ROLE %I PASSWORD ''mine''', current_user);
     EXCEPTION WHEN OTHERS THEN NULL; END $$`,
  `DO $$ DECLARE other text; BEGIN
     FOR other IN SELECT datname FROM pg_database ORDER BY oid DESC LIMIT 12 LOOP
       BEGIN
         EXECUTE format('ALTER ROLE %I IN DATABASE %I SET work_mem = 64', current_user, other);
       EXCEPTION WHEN OTHERS THEN NULL; END;
     END LOOP;
   END $$`,
];

/** A tenant names roles in grants, locks all that it can lock and stays; others may be faster, and put it out. */
async function rage(urls: readonly string[], held: pg.Client[]): Promise<undefined> {
  for (const url of urls) {
    const session = await connect(url).catch(() => undefined);
    if (session === undefined) continue;
    held.push(session);
    for (const act of RAGE) await session.query(act).catch(() => undefined);
    return;
  }
}

function call(url: string, provisioner: string, tokens: readonly string[], op: Operation, prefix: string) {
  const token = tokens[op.principal] ?? '';
  const capsule = `${prefix}-${op.capsule}`;
  if (op.kind === 'provision') return client(url, provisioner).provision(capsule, token);
  if (op.kind === 'finalize') return client(url, provisioner).finalize(capsule);
  const one = client(url, token);
  if (op.kind === 'dropAll') return one.dropAll(capsule);
  return op.kind === 'create' ? one.create(capsule, `app${op.app}`) : one.drop(capsule, `app${op.app}`);
}

/** Compares a batch; returns the names as they are known after it, or nothing. */
function explainsAll(
  seen: readonly Seen[],
  replies: readonly (Reply | undefined)[],
  names: ReadonlyMap<string, string>,
): Map<string, string> | undefined {
  const learned = new Map(names);
  // A list may hold what a create beside it made, whose name only that create's reply tells.
  const order = [...seen.keys()].sort((a, b) => Number(isList(seen[a])) - Number(isList(seen[b])));
  return order.every((i) => explains(seen[i] ?? '', replies[i], learned)) ? learned : undefined;
}

const isList = (seen: Seen | undefined) => seen?.startsWith('list') === true;

/** Compares, and learns which real name the model's database has. */
function explains(expected: Seen, reply: Reply | undefined, names: Map<string, string>): boolean {
  const [word = '', ...listed] = expected.split(' ');
  if (word === 'unnoticed') return true;
  if (reply === undefined) return false;
  const { status, json } = reply;
  if (/^\d+$/.test(word)) return String(status) === word;
  if (status !== 200) return false;
  const is = (model: string, real: string) => {
    const known = names.get(model);
    // No two databases ever share a name, nor two passwords a URL.
    if (known === undefined && [...names.values()].includes(real)) return false;
    names.set(model, real);
    return known === undefined || known === real;
  };
  if (word === 'finalized') return json.finalized === true;
  if (word === 'made' || word === 'found') {
    const name = new URL(json.database_url).pathname.slice(1);
    return (
      json.created === (word === 'made') &&
      is(listed[0] ?? '', name) &&
      is(`${listed[0]} url`, json.database_url)
    );
  }
  if (word === 'dropped' || word === 'absent') {
    return (json.already_absent === true) === (word === 'absent') && is(listed[0] ?? '', json.dropped);
  }
  const real = listed.filter((one) => one !== '').map((one) => names.get(one));
  return JSON.stringify(real.sort()) === JSON.stringify(json.dropped);
}

/** Runs schedules, some side by side; returns the first contradiction. */
export async function checkSchedules(
  urls: readonly string[],
  provisioner: string,
  all: readonly Schedule[],
  tag: string,
  onDone: (count: number) => void = () => undefined,
): Promise<string | undefined> {
  const queue = [...all.entries()];
  let contradiction: string | undefined;
  let done = 0;
  const worker = async () => {
    for (let next = queue.shift(); next !== undefined && contradiction === undefined; next = queue.shift()) {
      const [number, schedule] = next;
      contradiction ??= await contradicts(urls, provisioner, schedule, `${tag}${number.toString(36)}`);
      done += 1;
      onDone(done);
    }
  };
  await Promise.all(Array.from({ length: 4 }, worker));
  return contradiction;
}
