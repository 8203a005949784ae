import { once } from 'node:events';
import { readdirSync } from 'node:fs';
import { connect, createServer } from 'node:net';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { portOf, SharedSlots } from '@space/broker-kit';
import { afterAll, beforeAll, test } from 'vitest';
import { eventually } from '../../../testing/eventually.ts';
import { newAssistant } from '../testing/assistant.ts';
import { BUCKET } from '../testing/broker.ts';
import { type Fixture, openFixture } from '../testing/fixture.ts';
import { isWritingPart } from '../testing/held-writes.ts';
import { targetAt } from '../testing/target.ts';
import { createS3Client } from '../upstream/client.ts';
import { createPool } from '../upstream/managed.ts';
import { parseKey, prefixesOf } from './object-key.ts';
import { createObjectStore } from './store.ts';
import { createUploads } from './uploads.ts';

/** Parts whose callers hang up when all was sent, and whose uploads end before the server has stored them. */

const BEGUN = 64 * 1024;
const REST = 64 * 1024;

let fixture: Fixture;
beforeAll(async () => {
  fixture = await openFixture();
});
afterAll(() => fixture?.close());

const onDisk = () =>
  readdirSync(join(fixture.s3.directory, BUCKET, '.sgwtmp', 'multipart'), { recursive: true });

/** Passes connections on to the S3 server, but holds back what is sent of a part, also when its sender has gone. */
async function startRelay(port: number) {
  const held: (() => void)[] = [];
  const server = createServer((from) => {
    const to = connect(port, '127.0.0.1');
    let isPart = false;
    const pass = (act: () => void) => void (relay.isHolding && isPart ? held.push(act) : act());
    from.on('data', (piece) => {
      isPart ||= piece.includes('partNumber=');
      if (relay.isHolding && isPart) relay.heldBytes += piece.length;
      pass(() => to.write(piece));
    });
    from.on('close', () => pass(() => to.end())).on('error', () => undefined);
    to.on('data', (piece) => from.write(piece)).on('error', () => undefined);
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const relay = {
    server,
    endpoint: `http://127.0.0.1:${portOf(server)}`,
    isHolding: false,
    heldBytes: 0,
    letGo: () => {
      relay.isHolding = false;
      for (const act of held) act();
    },
  };
  return relay;
}

test('nothing stays of a part that the server stores when its upload was aborted', async () => {
  await newAssistant(fixture.broker);
  const [row] = await fixture.registry<{ place: string; capsule: string }>(
    'SELECT w.place, s.place AS capsule FROM broker.workload w JOIN broker.store s USING (capsule_id)',
  );
  const relay = await startRelay(Number(new URL(fixture.s3.endpoint).port));
  const target = targetAt(fixture.s3, BUCKET, relay.endpoint);
  const pool = createPool(target, { connections: 4 });
  const records = new SharedSlots({ total: 1, perKey: 1 });
  const registry = fixture.broker.context.connections;
  const reservation = { settle() {}, release() {}, doubt() {}, move: async () => undefined };
  const store = createObjectStore(
    createS3Client(target, pool),
    createUploads({ registry, most: 100, records }),
    { entryBytes: 1, quota: { reserve: async () => reservation }, lateMs: 10_000 },
  );
  const gone = new AbortController();
  const call = {
    tenant: {
      ...{ capsule: 'c', app: 'a', quotaBytes: 2 ** 30, digest: Buffer.alloc(32) as never },
      capsulePrefix: row!.capsule,
      prefixes: prefixesOf(row!.place, `${row!.capsule}s/`),
    },
    signal: gone.signal,
    inTurn: async <T>(act: () => T) => act(),
    passing: { isShared: () => false, inTurn: async <T>(act: () => T) => act() },
  };
  const id = await store.createUpload(call, { bucket: 'data', key: parseKey('key')! }, {});
  const stream = new PassThrough({ highWaterMark: REST });
  const part = store
    .putPart(call, { bucket: 'data', id, number: 1 }, { stream, length: BEGUN + REST }, {})
    .catch((error: unknown) => error);
  stream.write(Buffer.alloc(BEGUN));
  await eventually(() => isWritingPart(fixture.s3), { what: 'the server to begin the part' });
  relay.isHolding = true;
  stream.end(Buffer.alloc(REST));
  await eventually(() => relay.heldBytes >= REST, { what: 'the rest to be sent' });
  gone.abort();
  await part;
  await store.abortUpload({ ...call, signal: new AbortController().signal }, { bucket: 'data', id });
  relay.letGo();
  await eventually(() => onDisk().length > 0, { what: 'the server to store the part' });
  await eventually(() => onDisk().length === 0, { what: 'the part to go' });
  await pool.destroy();
  relay.server.close();
});
