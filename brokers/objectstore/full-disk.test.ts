import { PutObjectCommand } from '@aws-sdk/client-s3';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { eventually } from '../../testing/eventually.ts';
import { startEmbeddedServer } from '../../testing/postgres/server.ts';
import { openSmallDisk, type SmallDisk } from '../../testing/small-disk.ts';
import { clientOf } from './api/s3/testing/clients.ts';
import { type Assistant, assistant, newAssistant } from './testing/assistant.ts';
import { type Fixture, openFixture, openFixtureOn } from './testing/fixture.ts';

/** Disks that are full. The machine's own is not to be filled, and only root may mount a small one. */

const MIB = 2 ** 20;
const MOUNTS_NOTHING = 'this process may not mount a file system of its own';

const uploadOf = async (one: Assistant, key: string): Promise<string> =>
  (await one.post('/v1/uploads/data', { key })).json.upload_id;

describe('the disk of the S3 server', () => {
  let disk: SmallDisk | undefined;
  let fixture: Fixture;
  beforeAll(async () => {
    disk = openSmallDisk();
    if (disk) fixture = await openFixture({}, { directory: disk.path });
  });
  afterAll(async () => {
    await fixture?.close();
    disk?.close();
  });

  test('that is full is reported as 503, changes no stored object, and counts for no quota', async (context) => {
    if (!disk) return context.skip(MOUNTS_NOTHING);
    const one = await newAssistant(fixture.broker, { quota: 64 * MIB });
    expect((await one.put('kept', Buffer.alloc(MIB, 'a'))).status).toBe(200);
    const upload = `/v1/uploads/data/${await uploadOf(one, 'parts')}`;
    const part = (number: number) =>
      one.call('PUT', `${upload}/${number}`, { body: Buffer.alloc(6 * MIB, 'p') });
    const { etag } = (await part(1)).json;
    const complete = () => one.post(`${upload}/complete`, { parts: [{ number: 1, etag }] });

    disk.leave(2 * MIB);
    // Together they are more than the quota.
    for (let i = 0; i < 12; i += 1) {
      const answer = await one.put(i % 2 === 0 ? 'kept' : 'new', Buffer.alloc(6 * MIB, 'b'));
      expect([answer.status, answer.json.error.code]).toEqual([503, 'unavailable']);
      expect(Number(answer.headers.get('retry-after'))).toBeGreaterThan(1);
    }
    for (let number = 2; number < 6; number += 1) expect((await part(number)).status).toBe(503);
    expect((await complete()).status).toBe(503);
    const s3 = await clientOf(fixture.broker.dataUrl, one);
    const put = new PutObjectCommand({ Bucket: 'data', Key: 'new', Body: Buffer.alloc(6 * MIB) });
    await expect(s3.send(put)).rejects.toMatchObject({
      name: 'ServiceUnavailable',
      $metadata: { httpStatusCode: 503 },
    });
    expect((await one.get('kept')).text).toBe('a'.repeat(MIB));
    expect((await one.get('new')).status).toBe(404);
    const { objects } = (await one.call('GET', '/v1/objects/data')).json;
    expect(objects.map(({ key }: { key: string }) => key)).toEqual(['kept']);
    expect((await one.call('DELETE', '/v1/objects/data/kept')).status).toBe(200);

    disk.leave(64 * MIB);
    expect((await one.put('kept', Buffer.alloc(20 * MIB, 'b'))).status).toBe(200);
    expect((await complete()).status).toBe(200);
    expect((await one.get('parts')).text).toBe('p'.repeat(6 * MIB));
    // All of the quota is there but what is stored.
    expect((await one.put('more', Buffer.alloc(36 * MIB))).status).toBe(200);
  });

  test('that is completely full is freed by dropping its contents', async (context) => {
    if (!disk) return context.skip(MOUNTS_NOTHING);
    const { broker } = fixture;
    const owner = await broker.capsule('home');
    const [one, two] = [
      await broker.workload(owner, 'home', 'one'),
      await broker.workload(owner, 'home', 'two'),
    ];
    for (const token of [one, two])
      expect((await assistant(broker.dataUrl, token).put('large', Buffer.alloc(MIB))).status).toBe(200);
    disk.leave(0);
    expect((await assistant(broker.dataUrl, one).put('more', 'x')).status).toBe(503);
    expect((await owner.drop('home', 'one')).status).toBe(200);
    disk.leave(0);
    expect((await owner.dropAll('home')).json.dropped).toEqual(['two']);
    disk.leave(64 * MIB);
    expect((await broker.provisioner.finalize('home')).status).toBe(200);
  });
});

describe('the disk of the registry', () => {
  const disk = openSmallDisk();
  afterAll(() => disk?.close());

  test('that is full is reported as 503, loses nothing, and everything continues when there is space again', async (context) => {
    if (!disk) return context.skip(MOUNTS_NOTHING);
    const server = await startEmbeddedServer({
      place: disk.path,
      settings: { synchronous_commit: 'on' },
    });
    const fixture = await openFixtureOn(server);
    try {
      const one = await newAssistant(fixture.broker, { quota: 256 * MIB });
      expect((await one.put('kept', 'a')).status).toBe(200);
      disk.leave(64 * 2 ** 10);
      const stored: string[] = [];
      const told = new Set<string>();
      for (let i = 0; i < 900 && !told.has('503 unavailable'); i += 1) {
        const begun = await one.post('/v1/uploads/data', { key: `parts/${i}` });
        told.add(begun.status === 200 ? '200' : `${begun.status} ${begun.json.error.code}`);
        if ((await one.put(`o${i}`, `${i}`)).status === 200) stored.push(`o${i}`);
      }
      expect([...told].sort()).toEqual(['200', '503 unavailable']);

      disk.leave(256 * MIB);
      // Without room for its log the server ends itself, as it should; the kubelet starts it again.
      await fixture.registry('SELECT 1').catch(() => server.stop().then(server.start));
      const works = async () => (await one.put('after', Buffer.alloc(80 * MIB))).status === 200;
      await eventually(works, { what: 'a write that needs the registry' });
      for (const key of ['kept', ...stored]) expect((await one.get(key)).status).toBe(200);
      await server.stop();
      // A look-up is used again for a moment.
      await eventually(async () => (await one.get('kept')).status !== 200, { what: 'a refusal' });
      expect((await one.get('kept')).json.error.code).toBe('unavailable');
      expect((await one.put('late', 'x')).json.error.code).toBe('unavailable');
      await server.start();
      await eventually(async () => (await one.get('kept')).status === 200, { what: 'the registry' });
      expect(fixture.broker.log.join('')).not.toMatch(/space left|PANIC/);
    } finally {
      await fixture.close();
      await server.remove();
    }
  });
});
