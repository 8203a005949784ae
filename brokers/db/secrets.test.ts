import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { connect, type Fixture, openFixture } from './testing/postgres.ts';

/** Every secret is looked for wherever words come out, with everything turned up as loud as it goes. */

/** Of every process on this machine. */
function commandLines(): string {
  const lines = readdirSync('/proc')
    .filter((entry) => /^\d+$/.test(entry))
    .map((pid) => {
      try {
        return readFileSync(`/proc/${pid}/cmdline`, 'utf8');
      } catch {
        return ''; // It has ended meanwhile.
      }
    });
  return lines.join('\n');
}

let fixture: Fixture;
beforeAll(async () => {
  const settings = {
    log_statement: 'all',
    log_min_duration_statement: '0',
    log_min_error_statement: 'debug5',
    log_min_messages: 'debug1',
    log_error_verbosity: 'verbose',
    log_parameter_max_length_on_error: '-1',
    log_connections: 'on',
  };
  fixture = await openFixture({ settings, logsSessions: true }, { environment: { LOG_LEVEL: 'trace' } });
});
afterAll(() => fixture.close());

it('no token, password, key or URL appears anywhere except in the answer to its owner', async () => {
  const { broker, mounts, server } = fixture;
  const principal = newToken('dbp').reveal();
  const wrong = newToken('dbp').reveal();
  const replies = [await broker.provisioner.provision('canary', principal)];
  const urls: string[] = [replies[0]!.json.database_url];
  const capsule = broker.as(principal);
  for (const app of ['a', 'b']) urls.push((await capsule.create('canary', app)).json.database_url);
  replies.push(await broker.as(wrong).create('canary', 'a'));
  replies.push(await broker.provisioner.provision('canary', wrong));
  replies.push(await capsule.post('/v1/capsules/apps/create', `{"capsule_id":"canary","app_id":"${wrong}"}`));
  replies.push(await capsule.post('/v1/capsules/apps/create', `{"capsule_id":"canary" "${principal}"}`));
  // Statements that fail, with everything about them in the server's log.
  await fixture.sql(`DROP ROLE IF EXISTS nobody`);
  const name = new URL(urls[1]!).pathname.slice(1);
  const held = await connect(server.superuserUrl);
  await held.query(`BEGIN; ALTER ROLE ${name} CONNECTION LIMIT 5`);
  const racing = capsule.create('canary', 'a');
  await held.query('COMMIT');
  replies.push(await racing);
  await held.end();
  await fixture.registry("UPDATE broker.database SET name = name || 'x' WHERE app_id = 'b'");
  replies.push(await capsule.create('canary', 'b'));
  await fixture.registry("UPDATE broker.database SET name = rtrim(name, 'x') WHERE app_id = 'b'");
  await capsule.drop('canary', 'b');
  const metrics = await (await fetch(`http://127.0.0.1:${broker.metricsPort}/metrics`)).text();
  const activity = JSON.stringify(await fixture.sql('SELECT * FROM pg_stat_activity'));
  const audit = JSON.stringify(await fixture.registry('SELECT * FROM broker.audit'));
  const registry = JSON.stringify(
    await fixture.registry('SELECT * FROM broker.database, broker.capsule, broker.retired_principal'),
  );

  const file = (which: string) => readFileSync(join(mounts.directory, which), 'utf8').trim();
  const secrets = {
    principal,
    'wrong principal': wrong,
    provisioner: mounts.provisioner,
    'administrator password': new URL(server.brokerUrl).password,
    'derivation key': file('derivation'),
    'name key': file('names'),
    ...Object.fromEntries(urls.map((url, i) => [`password ${i}`, new URL(url).password])),
  };
  const refused = replies.filter(({ status }) => status !== 200).map(({ text }) => text);
  const places = {
    "the server's log": readFileSync(server.logPath, 'utf8'),
    "the broker's log": broker.log.join(''),
    'refusals and errors': refused.join(''),
    metrics,
    activity,
    audit,
    registry,
    processes: commandLines(),
  };
  expect(refused.length).toBeGreaterThanOrEqual(4);
  expect(places["the server's log"]).toMatch(/CREATE ROLE spc_/);
  for (const [place, text] of Object.entries(places)) {
    for (const [what, secret] of Object.entries(secrets)) {
      expect(text.includes(secret), `${what} in ${place}`).toBe(false);
    }
  }
});
