import { readdirSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { newAssistant } from '../testing/assistant.ts';
import { BUCKET } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { createEntryCount, entriesOf } from './charge.ts';

const KIB = 1024;
const ENTRY = 16 * KIB;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture?.close());

/** Files and folders on the S3 server's disk. */
const onDisk = () => readdirSync(join(fixture.s3.directory, BUCKET), { recursive: true }).length;

describe('what has no bytes', () => {
  it('costs an entry for each object and each folder: no quota fills a disk with empty ones', async () => {
    const one = await newAssistant(fixture.broker, { quota: 100 * ENTRY });
    const before = onDisk();
    let stored = 0;
    for (let i = 0; i < 40; i += 1) {
      const { json } = await one.put(`${i}/${'a/'.repeat(20)}x`, '');
      if (json.error === undefined) stored += 1;
      else expect(json.error.code).toBe('quota_exceeded');
    }
    expect(stored).toBe(4);
    expect(onDisk() - before).toBeLessThan(110);
  });

  it('does not fit where the quota is smaller than an entry', async () => {
    const one = await newAssistant(fixture.broker, { quota: ENTRY - 1 });
    expect((await one.put('a', '')).status).toBe(507);
    expect((await one.post('/v1/uploads/data', { key: 'a' })).json.error.code).toBe('quota_exceeded');
  });

  it('costs as much when it is counted, and a folder once: what is deleted is free again', async () => {
    const one = await newAssistant(fixture.broker, { quota: 12 * ENTRY });
    // Charged as three each, and as 2 + 4 when counted.
    for (const key of ['f/g/a', 'f/g/b', 'f/g/c', 'f/g/d']) expect((await one.put(key, '')).status).toBe(200);
    for (let i = 0; i < 6; i += 1)
      await eventually(async () => (await one.put(`top${i}`, '')).status === 200, { what: 'the count' });
    expect((await one.put('top6', '')).status).toBe(507);
    await one.call('DELETE', '/v1/objects/data/f/g/a');
    await eventually(async () => (await one.put('top6', '')).status === 200, { what: 'the count' });
  });

  it('nor is an empty part free', async () => {
    const one = await newAssistant(fixture.broker, { quota: 8 * ENTRY });
    const { upload_id } = (await one.post('/v1/uploads/data', { key: 'a' })).json;
    const codes: string[] = [];
    for (let number = 1; number <= 8; number += 1) {
      const { json } = await one.call('PUT', `/v1/uploads/data/${upload_id}/${number}`, { body: '' });
      codes.push(json.error?.code ?? 'ok');
    }
    expect(codes.filter((code) => code === 'ok')).toHaveLength(5);
  });
});

it('a count never finds more entries than the writes were charged, and none too few', () => {
  const segment = fc.constantFrom('a', 'b', 'a-b', 'a0');
  const key = fc.array(segment, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('/'));
  fc.assert(
    fc.property(fc.uniqueArray(key, { maxLength: 40 }), fc.boolean(), (keys, own) => {
      const prefix = `c/${'0'.repeat(40)}/${own ? `a/${'1'.repeat(40)}/` : 's/'}`;
      const count = createEntryCount();
      const listed = keys.map((one) => `${prefix}${one}`).toSorted();
      const counted = listed.reduce((sum, one) => sum + count(one), 0);
      const folders = new Set(
        keys.flatMap((one) => one.split('/').map((_, i, all) => `${all.slice(0, i).join('/')}/`)),
      );
      folders.delete('/');
      expect(counted).toBeGreaterThanOrEqual(keys.length + folders.size);
      expect(counted).toBeLessThanOrEqual(keys.reduce((sum, one) => sum + entriesOf(one), 0));
    }),
  );
});
