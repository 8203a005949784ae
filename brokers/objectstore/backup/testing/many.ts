/**
 * Copies a bucket of many objects with large headers in a process of its own, whose heap does not have room for them. The backup's
 * server is real; the lists of objects and contents are made up, since nobody waits for a server to store so many.
 */
import { createHash } from 'node:crypto';
import { Secret } from '@space/broker-kit';
import { createS3Client } from '../../upstream/client.ts';
import { createPool } from '../../upstream/managed.ts';
import type { Target } from '../../upstream/target.ts';
import type { ListedObject, S3Client } from '../../upstream/types.ts';
import { copy } from '../copy.ts';
import type { Entry, PointHeader } from '../entry.ts';
import { expire } from '../expire.ts';
import { pointName } from '../point-names.ts';
import { writePoint } from '../points.ts';
import { check } from '../restore.ts';
import { createSealer } from '../sealer.ts';
import { createVault } from '../vault.ts';

const [endpoint = '', id = '', secret = '', bucket = '', identity = '', count = '', header = ''] =
  process.argv.slice(2);
const OBJECTS = Number(count);
const SPACE = 'test';
const HEADERS = { 'x-amz-meta-long': 'x'.repeat(Number(header)) };
const MODIFIED = '2026-01-01T00:00:00.000Z';
const signal = new AbortController().signal;

const keyOf = (n: number) => `c/${String(n).padStart(8, '0')}/${'k'.repeat(200)}`;
const nameOf = (n: number) => createHash('sha256').update(String(n)).digest('hex');
const objectOf = (n: number): ListedObject => ({ key: keyOf(n), etag: '"e"', size: 1, modified: MODIFIED });

/** A server with a list of that many objects. */
function listing(s3: S3Client, one: (n: number) => ListedObject): S3Client {
  return {
    ...s3,
    list: async ({ prefix, token = '0', limit }) => {
      // It has no anchors of custody.
      if (prefix !== '') return { objects: [], prefixes: [], next: undefined };
      const from = Number(token);
      const objects = Array.from({ length: Math.min(limit, OBJECTS - from) }, (_, i) => one(from + i));
      const next = from + objects.length;
      return { objects, prefixes: [], next: next < OBJECTS ? String(next) : undefined };
    },
  };
}

const target: Target = {
  ...{ origin: endpoint, region: 'us-east-1', bucket, addressing: 'path' },
  ...{ accessKeyId: new Secret(id), secretAccessKey: new Secret(secret) },
};
const pool = createPool(target, { connections: 4 });
const s3 = createS3Client(target, pool);
const clock = { now: () => new Date(), pause: async () => undefined };
const real = createVault(s3, await createSealer(identity), 'many', clock);
const vault: typeof real = {
  ...real,
  contents: async function* () {
    for (let n = 0; n < OBJECTS; n += 1) yield { name: nameOf(n), size: 300, modified: MODIFIED };
  },
};

async function* entries(): AsyncGenerator<Entry> {
  for (let n = 0; n < OBJECTS; n += 1) {
    const { modified: last_modified, ...state } = objectOf(n);
    yield { ...state, last_modified, headers: HEADERS, content: nameOf(n), stored: 300 };
  }
}

const started = new Date(Date.now() - 3_600_000);
const pointHeader: PointHeader = {
  ...{ format: 1, space: SPACE, objects: OBJECTS, bytes: OBJECTS },
  ...{ started: started.toISOString(), finished: started.toISOString() },
};
await writePoint(vault, pointName(started), entries(), async () => pointHeader, signal);
const run = { space: SPACE, bucket: listing(s3, objectOf), vault, clock, signal, atOnce: 8 };
const copied = await copy(run);
const checked = await check({ ...run, bucket: s3 }, { at: undefined, makesBucket: false, withBucket: false });
const expired = await expire(run, 14);
await pool.destroy();
const { maxRSS } = process.resourceUsage();
console.log(JSON.stringify({ copied, checked, expired, mib: Math.round(maxRSS / 1024) }));
