import { newToken } from '@space/broker-kit';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { addSpare } from '../spares/pool.ts';
import { type Client, client, type Reply } from '../testing/broker.ts';
import { census, straySpares } from '../testing/census.ts';
import { type Fixture, openFixture, sqlstate } from '../testing/postgres.ts';
import { type BrokerProcess, type BrokerProgram, bundleBroker } from '../testing/process.ts';

/** A broker is killed at a step; its caller turns to another, and all must end as if nothing had happened. */

let fixture: Fixture;
let program: BrokerProgram;
let doomed: BrokerProcess | undefined;
let count = 0;

beforeAll(async () => {
  // What was committed must outlive a crash of the server's processes; the machine itself does not crash here.
  // No broker makes spares by itself here: each test has exactly the ones that it asks for.
  fixture = await openFixture(
    { settings: { synchronous_commit: 'on' } },
    { environment: { SPARE_DATABASES: '0' } },
  );
  program = await bundleBroker();
});
afterAll(async () => {
  await fixture.close();
  program.remove();
});
beforeEach(() => {
  count += 1;
});
afterEach(() => doomed?.kill());

async function setSpares(count: number): Promise<void> {
  const { connections, spares } = fixture.broker.context;
  const names = await fixture.sql<{ datname: string }>(
    "SELECT datname FROM pg_database WHERE datname ~ '_spare_'",
  );
  for (const { datname } of names) await fixture.sql(`DROP DATABASE ${datname}`);
  await fixture.registry('DELETE FROM broker.spare');
  for (let i = 0; i < count; i += 1) await addSpare(connections, spares);
}

/** Calls the broker that is to die, then the other replica. */
async function dieAndRetry(failpoint: string, token: string, act: (caller: Client) => Promise<Reply>) {
  doomed = await program.spawn({ ...fixture.mounts.environment, SPARE_DATABASES: '0', FAILPOINT: failpoint });
  await setSpares(failpoint.startsWith('cold') ? 0 : 1);
  await expect(act(client(doomed.url, token))).rejects.toThrow();
  await doomed.gone;
  return act(client(fixture.broker.url, token));
}

async function prepare(apps: readonly string[]) {
  const capsule = `crash-${count}`;
  const principal = newToken('dbp').reveal();
  expect((await fixture.broker.provisioner.provision(capsule, principal)).status).toBe(200);
  const urls: string[] = [];
  for (const app of apps)
    urls.push((await fixture.broker.as(principal).create(capsule, app)).json.database_url);
  return { capsule, principal, urls };
}

async function nothingLeft() {
  expect(await census(fixture.server.superuserUrl)).toEqual([]);
  // The one that lives adopts what the dead one left.
  await fixture.broker.round('spares');
  expect(await straySpares(fixture.server.superuserUrl)).toBe(0);
}

describe('killed while it creates', () => {
  it.each([
    'create:after-spare',
    'create:after-open',
    'create:before-commit',
    'answer',
    'cold:before-clone',
    'cold:after-clone',
  ])('at %s, the retry gives one database', async (failpoint) => {
    const { capsule, principal } = await prepare([]);
    const reply = await dieAndRetry(failpoint, principal, (one) => one.create(capsule, 'app'));
    expect(reply).toMatchObject({ status: 200, json: { created: failpoint !== 'answer' } });
    expect(await sqlstate(reply.json.database_url)).toBe('ok');
    await nothingLeft();
  });

  it.each(['create:after-open', 'provision:before-commit', 'answer'])(
    'a Capsule, at %s, the retry gives one Capsule',
    async (failpoint) => {
      const capsule = `crash-${count}`;
      const principal = newToken('dbp').reveal();
      const reply = await dieAndRetry(failpoint, fixture.mounts.provisioner, (one) =>
        one.provision(capsule, principal),
      );
      expect(reply).toMatchObject({ status: 200, json: { created: failpoint !== 'answer' } });
      expect(await sqlstate(reply.json.database_url)).toBe('ok');
      await nothingLeft();
    },
  );
});

it('killed while it ends sessions, the retry opens the database only with the new password', async () => {
  const { capsule, principal, urls } = await prepare(['app']);
  const [before = ''] = urls;
  await fixture.registry(
    `UPDATE broker.database SET rotation_due = true, evicting = true WHERE capsule_id = '${capsule}' AND app_id = 'app'`,
  );
  const reply = await dieAndRetry('evict:before-reopen', principal, (one) => one.create(capsule, 'app'));
  expect(reply).toMatchObject({ status: 200, json: { created: false } });
  expect(await sqlstate(before)).toBe('28P01');
  expect(await sqlstate(reply.json.database_url)).toBe('ok');
  await nothingLeft();
});

describe('killed while it drops', () => {
  it.each([
    'drop:after-cut',
    'drop:after-sessions',
    'drop:after-database',
    'drop:after-role',
    'drop:before-commit',
    'answer',
  ])('at %s, nobody has access and the retry leaves nothing', async (failpoint) => {
    const { capsule, principal, urls } = await prepare(['app']);
    const [url = ''] = urls;
    const name = new URL(url).pathname.slice(1);
    const reply = await dieAndRetry(failpoint, principal, async (one) => {
      const answer = await one.drop(capsule, 'app');
      expect(await sqlstate(url)).not.toBe('ok');
      return answer;
    });
    expect(reply).toMatchObject({ status: 200, json: { dropped: name } });
    expect(reply.json.already_absent).toBe(failpoint === 'answer' ? true : undefined);
    await nothingLeft();
  });

  it.each([
    'capsule-drop:after-cut',
    'drop:after-database',
    'capsule-drop:before-retire',
    'capsule-drop:before-commit',
  ])('a Capsule, at %s, the retry lists exactly what was dropped', async (failpoint) => {
    const { capsule, principal } = await prepare(['a', 'b']);
    const reply = await dieAndRetry(failpoint, principal, (one) => one.dropAll(capsule));
    const rows = await fixture.registry<{ name: string }>(
      'SELECT name FROM broker.database WHERE capsule_id = $1 ORDER BY name COLLATE "C"',
      [capsule],
    );
    expect(reply).toMatchObject({ status: 200, json: { dropped: rows.map(({ name }) => name) } });
    expect(rows).toHaveLength(3);
    await nothingLeft();
  });
});

it('a crash of the server itself under load loses nothing that was answered', async () => {
  const { capsule, principal } = await prepare([]);
  const { broker, server } = fixture;
  const caller = broker.as(principal);
  const answered = new Map<string, string>();
  let down = false;
  const working = Array.from({ length: 4 }, async (_, worker) => {
    for (let i = 0; !down; i += 1) {
      const reply = await caller.create(capsule, `w${worker}-n${i}`);
      if (reply.status === 200) answered.set(`w${worker}-n${i}`, reply.json.database_url);
      else expect(reply.status).toBe(503);
    }
  });
  await eventually(() => answered.size >= 6, { what: 'some work' });
  await server.kill();
  down = true;
  await Promise.all(working);
  expect((await fetch(`${broker.url}/healthz`)).status).toBe(200);
  expect((await caller.create(capsule, 'later')).status).toBe(503);
  await server.start();
  await eventually(async () => (await caller.create(capsule, 'later')).status === 200, {
    what: 'the broker to find the server again',
  });
  for (const [app, url] of answered) {
    expect(await sqlstate(url)).toBe('ok');
    expect((await caller.create(capsule, app)).json).toMatchObject({ created: false, database_url: url });
  }
  await nothingLeft();
});
