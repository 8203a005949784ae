/** Tenants with rows and objects, and digests of these to compare two moments. */
import { createHash, randomBytes } from 'node:crypto';
import { setTimeout as wait } from 'node:timers/promises';
import type { TestBroker } from '../../../brokers/db/testing/broker.ts';
import { connect, query } from '../../../brokers/db/testing/postgres.ts';
import { listed } from '../../../brokers/objectstore/backup/pieces.ts';
import type { S3Client } from '../../../brokers/objectstore/upstream/types.ts';

export interface Size {
  readonly capsules: number;
  readonly assistants: number;
  readonly rowBytes: number;
  readonly objectBytes: number;
}

export interface Tenant {
  readonly capsule: string;
  readonly app: string;
  url: string;
}

const ROW_BYTES = 1024;
const ROWS_AT_ONCE = 1_000;
const OBJECT_BYTES = 1024 ** 2;
const AT_ONCE = 4;

/** Runs several acts at once, each started when another has ended. */
async function several<T>(all: readonly T[], act: (one: T) => Promise<void>): Promise<void> {
  const left = [...all];
  const worker = async () => {
    for (let one = left.shift(); one !== undefined; one = left.shift()) await act(one);
  };
  await Promise.all(Array.from({ length: AT_ONCE }, worker));
}

/** Creates Capsules with Assistants, whose databases have about the same size. */
export async function makeTenants(broker: TestBroker, size: Size): Promise<readonly Tenant[]> {
  const tenants: Tenant[] = [];
  await several([...Array(size.capsules).keys()], async (number) => {
    const capsule = `capsule-${number}`;
    const caller = await broker.capsule(capsule);
    for (let i = number; i < size.assistants; i += size.capsules) {
      const app = `app-${i}`;
      const made = await caller.create(capsule, app);
      if (made.status !== 200) throw new Error(`${capsule}/${app}: ${made.text}`);
      tenants.push({ capsule, app, url: made.json.database_url });
    }
  });
  return tenants;
}

export async function writeRows(tenants: readonly Tenant[], bytes: number): Promise<void> {
  const rows = Math.ceil(bytes / tenants.length / ROW_BYTES);
  await several(tenants, async ({ url }) => {
    const client = await connect(url);
    try {
      await client.query(
        'CREATE TABLE entry (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, body text NOT NULL)',
      );
      for (let left = rows; left > 0; left -= ROWS_AT_ONCE) {
        const bodies = Array.from({ length: Math.min(left, ROWS_AT_ONCE) }, () =>
          randomBytes(ROW_BYTES / 2).toString('hex'),
        );
        await client.query('INSERT INTO entry (body) SELECT unnest($1::text[])', [bodies]);
      }
    } finally {
      await client.end();
    }
  });
}

/** The key prefix of a Capsule's objects, in the form that the object-storage broker uses. */
export const prefixOf = (capsule: string) => `c/${createHash('sha1').update(capsule).digest('hex')}/`;
export const keyOf = ({ capsule, app }: Tenant, number: number) => `${prefixOf(capsule)}a/${app}/${number}`;

export async function writeObjects(
  bucket: S3Client,
  tenants: readonly Tenant[],
  bytes: number,
): Promise<void> {
  const count = Math.ceil(bytes / OBJECT_BYTES);
  await several([...Array(count).keys()], async (number) => {
    const tenant = tenants[number % tenants.length];
    if (tenant !== undefined) await bucket.put(keyOf(tenant, number), randomBytes(OBJECT_BYTES));
  });
}

/** The number and the digest of each tenant's rows. */
export async function digestOfRows(tenants: readonly Tenant[]): Promise<ReadonlyMap<string, string>> {
  const digests = new Map<string, string>();
  await several(tenants, async ({ capsule, app, url }) => {
    const text = `SELECT count(*) || ' ' || md5(string_agg(md5(id || body), '' ORDER BY id)) AS digest FROM entry`;
    const [row] = await query<{ digest: string }>(url, text);
    digests.set(`${capsule}/${app}`, row?.digest ?? '');
  });
  return digests;
}

export async function digestOfObjects(bucket: S3Client): Promise<ReadonlyMap<string, string>> {
  const signal = new AbortController().signal;
  const clock = { pause: async (ms: number) => wait(ms) };
  const all = await Array.fromAsync(listed({ s3: bucket, clock, signal }, ''));
  const digests = new Map<string, string>();
  await several(all, async ({ key }) => {
    const { body } = await bucket.read(key, 2 * OBJECT_BYTES);
    digests.set(key, createHash('sha256').update(body).digest('hex'));
  });
  return digests;
}

/** The names whose values differ. */
export const differences = (
  before: ReadonlyMap<string, string>,
  after: ReadonlyMap<string, string>,
): readonly string[] =>
  [...new Set([...before.keys(), ...after.keys()])].filter((name) => before.get(name) !== after.get(name));
