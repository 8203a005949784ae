import { createLogger } from '@space/broker-kit';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Registry } from '../quota/rows.ts';
import { type Assistant, newAssistant } from '../testing/assistant.ts';
import { BUCKET } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { targetAt } from '../testing/target.ts';
import { createS3Client } from '../upstream/client.ts';
import { createPool } from '../upstream/managed.ts';
import { abortForgotten } from './abandoned-uploads.ts';
import { endUnbegun } from './unbegun-uploads.ts';

/** How old an open upload is taken to be while PostgreSQL's clock or the broker's is wrong. */

const DAY_MS = 86_400_000;

let fixture: Fixture;
let mine: Assistant;
beforeAll(async () => {
  fixture = await openFixture();
  mine = await newAssistant(fixture.broker);
});
afterAll(() => fixture?.close());

/** The registry as with a clock of PostgreSQL's that is two days ahead. */
function registryAhead(): Registry {
  const { lookup, transaction } = fixture.broker.context.connections;
  const ahead = (text: string) =>
    text.replaceAll('clock_timestamp()', "(clock_timestamp() + interval '2 days')");
  return {
    transaction,
    lookup: { ...lookup, run: (step, text, values) => lookup.run(step, ahead(text), values) },
  };
}

async function begin(key: string): Promise<string> {
  const { status, json } = await mine.post('/v1/uploads/data', { key });
  expect(status).toBe(200);
  return json.upload_id;
}

const isOpen = async (id: string) => (await mine.call('GET', `/v1/uploads/data/${id}`)).status === 200;

/** What the upkeep does with a registry, and with a clock of the broker's that is so much ahead. */
async function upkeep(registry: Registry, aheadMs = 0): Promise<void> {
  const target = targetAt(fixture.s3, BUCKET);
  const pool = createPool(target, { connections: 1 });
  const client = createS3Client(target, pool);
  const log = createLogger({ service: 'test', level: 'silent' });
  const now = () => new Date(Date.now() + aheadMs);
  const { signal } = new AbortController();
  try {
    await abortForgotten(registry, client, { afterSeconds: DAY_MS / 1_000, now, log }, signal);
    await endUnbegun(registry, client, { now, log }, signal);
  } finally {
    await pool.destroy();
  }
}

test('an upload stays open while PostgreSQL’s clock is two days ahead, or the broker’s', async () => {
  const id = await begin('ahead');
  await fixture.registry(
    `INSERT INTO broker.object_upload (id, place, room, key, upstream_id, created_at)
     SELECT md5(id), place, room, key || '-unbegun', '', created_at + interval '1 hour' FROM broker.object_upload WHERE id = $1`,
    [id],
  );
  const rows = () => fixture.registry('SELECT id FROM broker.object_upload');
  await upkeep(registryAhead());
  await upkeep(fixture.broker.context.connections, 2 * DAY_MS);
  expect(await isOpen(id)).toBe(true);
  expect(await rows()).toHaveLength(2);
  await upkeep(registryAhead(), 2 * DAY_MS);
  expect(await isOpen(id)).toBe(false);
  expect(await rows()).toEqual([]);
});

test('an upload that was begun while PostgreSQL’s clock was two days behind is as old as it is', async () => {
  const set = (fallback: string) =>
    fixture.registry(`ALTER TABLE broker.object_upload ALTER COLUMN created_at SET DEFAULT ${fallback}`);
  await set("clock_timestamp() - interval '2 days'");
  const id = await begin('behind').finally(() => set('clock_timestamp()'));
  await fixture.broker.round('forgotten uploads');
  expect(await isOpen(id)).toBe(true);
});
