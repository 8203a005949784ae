import { afterAll, beforeAll, expect, it } from 'vitest';
import { type Assistant, newAssistant } from '../testing/assistant.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';

/** The administrator exchanges the Space-managed key while Assistants work. */

let fixture: Fixture;
let mine: Assistant;
beforeAll(async () => {
  fixture = await openFixture();
  mine = await newAssistant(fixture.broker);
});
afterAll(() => fixture?.close());

const said = (text: string) => fixture.broker.log.filter((line) => line.includes(text)).length;

it('a key that the S3 server refuses is logged once, and the valid one stays in use', async () => {
  const { mounts, broker, s3 } = fixture;
  mounts.write('secret-key', 'not-the-secret-of-anybody');
  await broker.refreshFiles();
  await broker.refreshFiles();
  expect((await mine.put('while-wrong', 'x')).status).toBe(200);
  expect(said('S3 key changed and refused')).toBe(1);
  mounts.write('secret-key', s3.secretAccessKey);
  await broker.refreshFiles();
  expect(said('S3 key changed and taken')).toBe(0);
});

it('a new key is read from its files without a restart, and never combined with a half of the old one', async () => {
  const { mounts, broker, s3 } = fixture;
  const old = { id: s3.accessKeyId, secret: s3.secretAccessKey };
  await s3.rekey();
  expect((await mine.get('while-wrong')).json.error.code).toBe('upstream_failed');
  mounts.write('access-key', s3.accessKeyId);
  await broker.refreshFiles();
  expect(said('S3 key changed and taken')).toBe(0);
  mounts.write('secret-key', s3.secretAccessKey);
  await broker.refreshFiles();
  expect(said('S3 key changed and taken')).toBe(1);
  expect((await mine.get('while-wrong')).text).toBe('x');
  expect((await mine.put('after', 'y')).status).toBe(200);
  const log = broker.log.join('');
  for (const word of [old.id, old.secret, s3.accessKeyId, s3.secretAccessKey])
    expect(log).not.toContain(word);
});

it('while the server is unavailable the old key stays, and the new one is used once it is back', async () => {
  const { mounts, broker, s3 } = fixture;
  await s3.rekey();
  await s3.kill();
  mounts.write('access-key', s3.accessKeyId);
  mounts.write('secret-key', s3.secretAccessKey);
  await broker.refreshFiles();
  const taken = said('S3 key changed and taken');
  await s3.start();
  await broker.refreshFiles();
  expect(said('S3 key changed and taken')).toBe(taken + 1);
  expect((await mine.get('after')).text).toBe('y');
});
