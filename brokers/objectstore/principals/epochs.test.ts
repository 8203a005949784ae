import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createLogger, newToken } from '@space/broker-kit';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { COMMANDS } from '../commands.ts';
import { readConfig } from '../config.ts';
import { assistant } from '../testing/assistant.ts';
import { BUCKET, type Client, client, type TestBroker } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { spawnBroker } from '../testing/process.ts';
import { openManagedStore } from '../upstream/managed.ts';
import { type Bound, createEpochs } from './epochs.ts';
import { bindUnbound } from './unbound.ts';

/** Changes of the rows of principals: an edit, or a registry that is set back. */

let fixture: Fixture;
let home: Client;
beforeEach(async () => {
  fixture = await openFixture();
  home = await fixture.broker.capsule('home');
});
afterEach(() => fixture?.close());

const TABLES = ['capsule', 'store', 'workload', 'retired_principal', 'epoch'];

/** Keeps the principals as they are now, to be put back later, as a restored backup does. */
async function backup(): Promise<() => Promise<void>> {
  await fixture.registry('DROP SCHEMA IF EXISTS kept CASCADE; CREATE SCHEMA kept');
  for (const table of TABLES) await fixture.registry(`CREATE TABLE kept.${table} AS TABLE broker.${table}`);
  return async () => {
    // All at once: no request sees a half of it. Triggers of a restore do not run.
    const off = 'SET session_replication_role = replica';
    const out = TABLES.toReversed().map((table) => `DELETE FROM broker.${table}`);
    const back = TABLES.map((table) => `INSERT INTO broker.${table} SELECT * FROM kept.${table}`);
    await fixture.registry(`BEGIN; ${[off, ...out, ...back].join('; ')}; COMMIT`);
  };
}

const code = async (token: string, at: TestBroker = fixture.broker): Promise<string> => {
  const { status, json } = await assistant(at.dataUrl, token).get('file');
  return json?.error?.code ?? String(status);
};
const registryEpoch = async () =>
  (await fixture.registry<{ n: number }>('SELECT number::int AS n FROM broker.epoch'))[0]?.n;
const anchored = () =>
  JSON.parse(readFileSync(join(fixture.s3.directory, BUCKET, 'custody/v1/epoch-test'), 'utf8')).epoch;
/** What was found before the edit is known for a moment. */
const lapse = () => fixture.broker.context.leasesLapse();
const silent = createLogger({ service: 'test', level: 'silent' });
const workload = (app: string) => fixture.broker.workload(home, 'home', app);

describe('a row that somebody edited', () => {
  const swapPlaces = [
    `UPDATE broker.workload SET place = left(place, 45) || repeat('7', 40) || '/' WHERE app_id = 'mine'`,
    `WITH victim AS (SELECT place FROM broker.workload WHERE app_id = 'victim'),
          moved AS (UPDATE broker.workload SET place = left(place, 45) || repeat('8', 40) || '/'
                    WHERE app_id = 'victim' RETURNING 1)
     SELECT place FROM victim, moved`,
  ];

  it('with the prefix of another is refused', async () => {
    const [mine, victim] = [await workload('mine'), await workload('victim')];
    await assistant(fixture.broker.dataUrl, victim).put('file', 'secret');
    await fixture.registry(swapPlaces[0] ?? '');
    const [row] = await fixture.registry<{ place: string }>(swapPlaces[1] ?? '');
    await fixture.registry("UPDATE broker.workload SET place = $1 WHERE app_id = 'mine'", [row?.place]);
    await lapse();
    expect(await code(mine)).toBe('forbidden');
    expect(await code(victim)).toBe('forbidden');
    const metrics = await (await fetch(`http://127.0.0.1:${fixture.broker.metricsPort}/metrics`)).text();
    expect(metrics).toMatch(/custody_alarms_total\{alarm="forged_principal"\} [1-9]/);
  });

  it('with a principal of somebody else is refused', async () => {
    const [mine, victim] = [await workload('mine'), await workload('victim')];
    await assistant(fixture.broker.dataUrl, victim).put('file', 'secret');
    await fixture
      .registry(
        `WITH mine AS (DELETE FROM broker.workload WHERE app_id = 'mine' RETURNING principal)
       SELECT principal FROM mine`,
      )
      .then(([row]) =>
        fixture.registry("UPDATE broker.workload SET principal = $1 WHERE app_id = 'victim'", [
          row?.['principal'],
        ]),
      );
    await lapse();
    expect(await code(mine)).toBe('forbidden');
    expect(await code(victim)).toBe('forbidden');
  });

  it('without a MAC is refused once those of the earlier version are bound', async () => {
    const mine = await workload('mine');
    const { connections, bindings, prefixNames } = fixture.broker.context;
    const { s3, close } = await openManagedStore(readConfig(fixture.mounts.environment), silent);
    let now = 0;
    const bindAll = (bound: Bound) => bindUnbound({ connections, bindings, prefixNames, log: silent }, bound);
    const epochs = createEpochs({
      ...{ connections, s3, space: 'test', log: silent, bindAll },
      onRollback: () => undefined,
      now: () => now,
    });
    const { signal } = new AbortController();
    await epochs.round.run(signal);
    await fixture.registry('UPDATE broker.workload SET mac = NULL');
    await epochs.round.run(signal);
    await lapse();
    expect(await code(mine)).toBe('not_found');
    now += 16 * 60_000;
    await epochs.round.run(signal);
    await fixture.registry('UPDATE broker.workload SET mac = NULL');
    await epochs.round.run(signal);
    const fresh = await fixture.replica();
    expect(await code(mine, fresh)).toBe('forbidden');
    await fresh.stop();
    await close();
  });
});

describe('a registry that was restored to an older state', () => {
  it('accepts nobody, on any replica and listener, until all principals are exchanged', async () => {
    const [leaked, other] = [await workload('leaked'), await workload('other')];
    const running = await fixture.replica();
    const restore = await backup();
    expect((await home.drop('home', 'leaked')).status).toBe(200);
    await running.round('epoch');
    expect(anchored()).toBe(await registryEpoch());
    await restore();

    const fresh = await fixture.replica();
    for (const one of [fixture.broker, running, fresh]) {
      expect(await code(leaked, one)).toBe('custody_rollback');
      expect(await code(other, one)).toBe('custody_rollback');
      const reply = await client(one.url, home.token).create('home', 'new', newToken('osw').reveal());
      expect(reply.json.error.code).toBe('custody_rollback');
    }
    expect(fixture.broker.log.join('')).toContain('the registry was set back');

    const told = await COMMANDS['restore']?.run(
      fresh.context,
      'a'.repeat(32),
      ['principals'],
      async () => '',
    );
    expect(told).toEqual({ capsules: ['home'], workloads: 2 });
    for (const one of [fixture.broker, running, fresh]) {
      expect(await code(leaked, one)).toBe('forbidden');
      expect(await code(other, one)).toBe('forbidden');
      expect((await client(one.url, home.token).drop('home', 'other')).status).toBe(403);
    }
    // As the runbook says: another principal for the Capsule, then for its Assistants; the old ones never again.
    const principal = newToken('osp').reveal();
    const replace = COMMANDS['replace-principal'];
    await replace?.run(fresh.context, 'b'.repeat(32), ['home'], async () => principal);
    const again = client(fresh.url, principal);
    expect((await again.create('home', 'other', other)).json.error.code).toBe('conflict');
    const next = newToken('osw').reveal();
    expect((await again.create('home', 'other', next)).json).toMatchObject({ created: false });
    expect(await code(next)).toBe('not_found');
    expect(anchored()).toBe(await registryEpoch());
    await Promise.all([running.stop(), fresh.stop()]);
  });

  it('has no principal of a Capsule replaced, which would raise its epoch until it does not show', async () => {
    const leaked = await workload('leaked');
    const restore = await backup();
    expect((await home.drop('home', 'leaked')).status).toBe(200);
    const [told, before] = [anchored(), await registryEpoch()];
    await restore();
    expect(told).toBe(before);

    const { context } = fixture.broker;
    const next = newToken('osp').reveal();
    const trace = 'c'.repeat(32);
    for (const [name, args, input] of [
      ['replace-principal', ['home'], next],
      ['replace-principals', [], `home ${next}`],
    ] as const)
      await expect(COMMANDS[name]?.run(context, trace, args, async () => input)).rejects.toMatchObject({
        code: 'custody_rollback',
      });
    expect(await registryEpoch()).toBeLessThan(anchored());
    expect(await code(leaked)).toBe('custody_rollback');
    const fresh = await fixture.replica();
    expect(await code(leaked, fresh)).toBe('custody_rollback');
    await fresh.stop();
  });
});

it('a principal that an administrator has replaced is anchored before the command says so', async () => {
  const next = newToken('osp').reveal();
  const { context } = fixture.broker;
  const replace = COMMANDS['replace-principal'];
  expect(await replace?.run(context, 'd'.repeat(32), ['home'], async () => next)).toEqual({ replaced: true });
  expect(anchored()).toBe(await registryEpoch());
  expect((await home.create('home', 'new', newToken('osw').reveal())).status).toBe(403);
});

it('a broker that is killed before the bucket has the epoch has answered nothing, and the next one continues', async () => {
  const token = await workload('doomed');
  const doomed = await spawnBroker({ ...fixture.mounts.environment, FAILPOINT: 'drop:after-cut' });
  await expect(client(doomed.url, home.token).drop('home', 'doomed')).rejects.toThrow();
  await doomed.gone;
  expect(await registryEpoch()).toBeGreaterThan(anchored());
  expect(await code(token)).toBe('forbidden');
  expect((await home.drop('home', 'doomed')).status).toBe(200);
  expect(anchored()).toBe(await registryEpoch());
});

it('many principals that end at once on two replicas are all anchored when they are answered', async () => {
  const replica = await fixture.replica();
  const apps = Array.from({ length: 12 }, (_, i) => `app-${i}`);
  await Promise.all(apps.map(workload));
  const replies = await Promise.all(
    apps.map((app, i) =>
      client(i % 2 === 0 ? fixture.broker.url : replica.url, home.token).create(
        'home',
        app,
        newToken('osw').reveal(),
      ),
    ),
  );
  expect(replies.map(({ status }) => status)).toEqual(apps.map(() => 200));
  expect(anchored()).toBe(await registryEpoch());
  await replica.stop();
});

it('an epoch that was read before others advanced is not mistaken for an older registry', async () => {
  const { connections, bindings, prefixNames } = fixture.broker.context;
  const { s3, close } = await openManagedStore(readConfig(fixture.mounts.environment), silent);
  await workload('app');
  let alarms = 0;
  const held = Promise.withResolvers<void>();
  const read = Promise.withResolvers<void>();
  let isFirst = true;
  // The answer to the first that asks comes after all the others'.
  const lookup: typeof connections.lookup = {
    ...connections.lookup,
    run: async <Row extends object>(...query: Parameters<typeof connections.lookup.run>) => {
      const isHeld = isFirst;
      isFirst = false;
      const rows = await connections.lookup.run<Row>(...query);
      if (!isHeld) return rows;
      read.resolve();
      await held.promise;
      return rows;
    },
  };
  const epochs = createEpochs({
    ...{ connections: { lookup }, s3, space: 'test', log: silent },
    bindAll: (bound) => bindUnbound({ connections, bindings, prefixNames, log: silent }, bound),
    onRollback: () => {
      alarms += 1;
    },
  });
  const slow = epochs.expectCurrent();
  await read.promise;
  await workload('app');
  expect((await home.drop('home', 'app')).status).toBe(200);
  await epochs.expectCurrent();
  held.resolve();
  await slow;
  expect(alarms).toBe(0);
  await close();
});

it('while the bucket is unavailable no principal ends: the caller is told to retry, and then it ends', async () => {
  const token = await workload('app');
  const next = newToken('osw').reveal();
  await fixture.s3.kill();
  expect((await home.create('home', 'app', next)).json.error.code).toBe('custody_unavailable');
  await fixture.s3.start();
  expect((await home.create('home', 'app', next)).json).toMatchObject({ created: false });
  expect(await code(token)).toBe('forbidden');
  expect(await code(next)).toBe('not_found');
});

it('Capsules of a version that bound only workloads are bound, and no workload with them', async () => {
  const mine = await workload('mine');
  const epoch = await registryEpoch();
  const { s3, close } = await openManagedStore(readConfig(fixture.mounts.environment), silent);
  await s3.put('custody/v1/epoch-test', Buffer.from(JSON.stringify({ v: 1, epoch, bound: true })), {
    headers: { 'content-type': 'application/json' },
  });
  await close();
  // After the bucket knows: a round of the first replica before it would have bound the workload, too.
  await fixture.registry('UPDATE broker.store SET mac = NULL');
  await fixture.registry('UPDATE broker.workload SET mac = NULL');
  const updated = await fixture.replica();
  expect((await client(updated.url, home.token).create('home', 'new', newToken('osw').reveal())).status).toBe(
    200,
  );
  expect(await code(mine, updated)).toBe('forbidden');
  await updated.stop();
});

it('rows of a version that bound none are bound at the start, if their prefixes are derived from their names', async () => {
  const [good, bad] = [await workload('good'), await workload('bad')];
  await fixture.registry('UPDATE broker.workload SET mac = NULL');
  await fixture.registry(
    "UPDATE broker.workload SET place = left(place, 45) || repeat('7', 40) || '/' WHERE app_id = 'bad'",
  );
  const updated = await fixture.replica();
  expect(await code(good, updated)).toBe('not_found');
  expect(await code(bad, updated)).toBe('forbidden');
  await updated.stop();
});
