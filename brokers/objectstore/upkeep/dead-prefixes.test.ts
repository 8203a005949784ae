import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { closeAll, createLogger, type Resources, type Round } from '@space/broker-kit';
import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { type EmbeddedServer, startEmbeddedServer } from '../../../testing/postgres/server.ts';
import { type S3Server, startS3Server } from '../../../testing/s3.ts';
import { intoDatabase, query } from '../../db/testing/postgres.ts';
import { readConfig } from '../config.ts';
import { openContext } from '../open.ts';
import { type Between, startBetween } from '../testing/between.ts';
import { BUCKET, mountFiles } from '../testing/broker.ts';
import { sweepDeadPrefixes } from './dead-prefixes.ts';

let server: EmbeddedServer;
let s3: S3Server;
let between: Between;
let mounts: ReturnType<typeof mountFiles>;
/** Of a broker that runs no round by itself. */
let round: Round;
const resources: Resources = { closers: [], files: [] };

beforeAll(async () => {
  server = await startEmbeddedServer({ durable: false });
  s3 = await startS3Server();
  s3.makeBucket(BUCKET);
  between = await startBetween(s3);
  mounts = mountFiles(server.objectStoreUrl, s3);
  const config = readConfig({ ...mounts.environment, S3_ENDPOINT: between.endpoint });
  const log = createLogger({ service: 'test', level: 'silent' });
  round = sweepDeadPrefixes((await openContext(config, log, resources)).context);
});
afterAll(async () => {
  await closeAll(resources);
  await between?.close();
  mounts?.remove();
  await s3?.remove();
  await server?.remove();
});
beforeEach(() => {
  between.fate = () => 'pass';
});

const sweep = () => round.run(new AbortController().signal);
const registry = <Row extends Record<string, unknown>>(text: string, values?: unknown[]) =>
  query<Row>(intoDatabase(server.superuserUrl, 'space_objectstore'), text, values);
const prefixOf = (digit: string) => `c/${digit.repeat(40)}/`;
const file = (prefix: string) => join(s3.directory, BUCKET, prefix, 's/late');

/** A prefix that has been dead for so many hours, and an object that came after the last sweep. */
async function makeDead(prefix: string, hours: number): Promise<void> {
  await registry(
    `INSERT INTO broker.dead_place (place, dead_at) VALUES ($1, clock_timestamp() - make_interval(hours => $2))`,
    [prefix, hours],
  );
  mkdirSync(dirname(file(prefix)), { recursive: true });
  writeFileSync(file(prefix), 'object');
}

const noted = async (prefix: string) =>
  (await registry('SELECT 1 FROM broker.dead_place WHERE place = $1', [prefix])).length === 1;

/** Whatever is asked about the prefix fails, as on a disk with a bad sector. */
function breakPrefix(prefix: string): void {
  between.fate = ({ url = '' }) =>
    decodeURIComponent(url).includes(prefix) ? { status: 500, code: 'InternalError' } : 'pass';
}

it('a dead prefix that cannot be swept does not block others', async () => {
  const [broken, other] = [prefixOf('a'), prefixOf('b')];
  await makeDead(broken, 3);
  await makeDead(other, 2);
  breakPrefix(broken);
  await expect(sweep()).rejects.toThrow();
  expect([existsSync(file(broken)), existsSync(file(other))]).toEqual([true, false]);
});

it('hundreds of them do not block others, are retried in an hour, and are not forgotten before', async () => {
  await registry(
    `INSERT INTO broker.dead_place (place, dead_at)
     SELECT 'c/' || lpad(i::text, 40, 'd') || '/', clock_timestamp() - interval '2 days' FROM generate_series(1, 250) i`,
  );
  const other = prefixOf('e');
  await makeDead(other, 2);
  breakPrefix('c/ddd');
  for (let round = 0; round < 3; round += 1) await expect(sweep()).rejects.toThrow();
  expect(existsSync(file(other))).toBe(false);
  const [left] = await registry<{ left: number }>(
    "SELECT count(*)::int AS left FROM broker.dead_place WHERE place LIKE 'c/ddd%'",
  );
  expect(left).toEqual({ left: 250 });
});

it('one that was swept after its day is forgotten', async () => {
  const prefix = prefixOf('f');
  await makeDead(prefix, 30);
  await sweep();
  expect([existsSync(file(prefix)), await noted(prefix)]).toEqual([false, false]);
});
