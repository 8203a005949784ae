import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { S3Keys } from '../api/s3/testing/clients.ts';
import { sendSigned } from '../api/s3/testing/signed.ts';
import { type Assistant, assistant } from '../testing/assistant.ts';
import type { Client } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';

/** The key of names cannot be exchanged: with another one everything is closed, and nothing is lost. */

let fixture: Fixture;
let owner: Client;
let mine: Assistant;
let keys: S3Keys;
beforeAll(async () => {
  fixture = await openFixture();
  owner = await fixture.broker.capsule('home');
  mine = assistant(fixture.broker.dataUrl, await fixture.broker.workload(owner, 'home', 'app'));
  expect((await mine.put('kept', 'as it was')).status).toBe(200);
  keys = (await mine.call('GET', '/v1/s3/credentials')).json;
});
afterAll(() => fixture?.close());

const listed = (base: string) => sendSigned(base, keys, { method: 'GET', path: '/data' });

test('a broker with another key does not start on the bucket of the first', async () => {
  const NAME_KEY_FILE = fixture.mounts.write('new-names', randomBytes(32).toString('base64url'));
  await expect(fixture.replica({ environment: { NAME_KEY_FILE } })).rejects.toThrow(
    /belongs to another Space of the name "test", with other keys/,
  );
  expect((await mine.get('kept')).text).toBe('as it was');
});

test('on its own bucket it accepts nobody and raises an alarm, and with the first key everything works again', async () => {
  const NAME_KEY_FILE = fixture.mounts.write('other-names', randomBytes(32).toString('base64url'));
  fixture.s3.makeBucket('others');
  const other = await fixture.replica({ environment: { NAME_KEY_FILE, S3_BUCKET: 'others' } });
  const through = assistant(other.dataUrl, mine.token);
  expect((await through.get('kept')).status).toBe(403);
  expect((await through.put('kept', 'changed')).status).toBe(403);
  expect((await through.call('GET', '/v1/s3/credentials')).status).toBe(403);
  expect((await listed(other.dataUrl)).status).toBe(403);
  const asked = await other.as(owner.token).post('/v1/capsules/usage', { capsule_id: 'home' });
  expect(asked.status).toBe(403);
  expect(other.log.some((line) => line.includes('did not register'))).toBe(true);
  await other.stop();

  expect((await mine.get('kept')).text).toBe('as it was');
  expect((await listed(fixture.broker.dataUrl)).text).toContain('<Key>kept</Key>');
});
