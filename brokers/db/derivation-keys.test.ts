import { randomBytes } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { newToken } from '@space/broker-kit';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { COMMANDS } from './commands.ts';
import { type Fixture, openFixture, sqlstate } from './testing/postgres.ts';

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture.close());

const newKey = () => randomBytes(32).toString('base64url');
const isRefused = async () => (await fixture.broker.metric('space_db_derivation_keys_refused')).get('') === 1;
const take = async (...keys: readonly string[]) => {
  fixture.mounts.write('derivation', keys.join('\n'));
  await fixture.broker.refreshFiles();
};

it('a derivation key that a database depends on is kept until none does, whatever becomes of the file', async () => {
  const old = readFileSync(join(fixture.mounts.directory, 'derivation'), 'utf8').trim();
  const principal = newToken('dbp').reveal();
  const provision = () => fixture.broker.provisioner.provision('keyed', principal);
  await provision();
  const capsule = fixture.broker.as(principal);
  const create = () => capsule.create('keyed', 'app');
  const { database_url: before } = (await create()).json;
  expect(await isRefused()).toBe(false);

  const fresh = newKey();
  await take(fresh);
  expect(await isRefused()).toBe(true);
  expect(fixture.broker.log.join('')).toMatch(/"level":"error".*keys that databases depend on are missing/);
  expect((await create()).json.database_url).toBe(before);
  expect(await sqlstate(before)).toBe('ok');

  await take(fresh, old);
  expect(await isRefused()).toBe(false);
  expect((await create()).json.database_url).toBe(before);
  await COMMANDS['rotate']!.run(fixture.broker.servers, 'test', ['--all'], async () => '');
  await provision();
  await take(fresh);
  // The Assistant's database was not rotated yet.
  expect(await isRefused()).toBe(true);
  const { database_url: after } = (await create()).json;
  expect(after).not.toBe(before);
  await fixture.broker.refreshFiles();
  expect(await isRefused()).toBe(false);
  expect((await create()).json.database_url).toBe(after);
  expect(await sqlstate(after)).toBe('ok');

  await fixture.server.stop();
  await take(newKey());
  expect(await isRefused()).toBe(true);
  expect(fixture.broker.log.join('')).toContain('a server does not say whether databases depend');
  await take(newKey(), fresh);
  expect(await isRefused()).toBe(false);
});
