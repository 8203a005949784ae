import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { mountFiles, startTestBroker } from '../../brokers/db/testing/broker.ts';
import { archiveNow } from '../../e2e/restore/capsule/copies.ts';
import { eventually } from '../eventually.ts';
import { asShipped } from './restore/as-shipped.ts';
import { type Buckets, openBuckets } from './restore/buckets.ts';
import { makeError, newestTick } from './restore/error.ts';
import { type Limit, limitTo } from './restore/limit.ts';
import { acceptedDamage, checkBackup } from './restore/look.ts';
import { restoreOne } from './restore/one-capsule.ts';
import { acceptedOf, retire } from './restore/retired.ts';
import { type BackedUpServer, openServer } from './restore/server.ts';
import {
  differences,
  digestOfObjects,
  digestOfRows,
  makeTenants,
  type Size,
  type Tenant,
  writeObjects,
  writeRows,
} from './restore/tenants.ts';
import { costOf } from './restore/traffic.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

const SETTINGS = '/run/postgresql/pgbackrest.conf';
const MIB = 1024 ** 2;
const WHOLE: Size = { capsules: 50, assistants: 100, rowBytes: 1024 * MIB, objectBytes: 1024 * MIB };
const QUICK: Size = { capsules: 5, assistants: 10, rowBytes: 32 * MIB, objectBytes: 32 * MIB };
/** The limits for the full size. */
const MOST = { restoreSeconds: 60, capsuleSeconds: 10, costPercent: 10, undoneSeconds: 5 };

interface Space {
  /** The limits that a backup runs under. */
  readonly limits: readonly Limit[];
  readonly server: BackedUpServer;
  readonly buckets: Buckets;
  startBroker(): ReturnType<typeof startTestBroker>;
}

/**
 * Restores one Capsule under another name, and then the whole data of a lost Space, as of a moment before an error. PostgreSQL
 * and its backup run in the Space's own image, with the database broker and S3 servers, and both restores use the programs of the
 * image and of `npm run restore` that check, select and move data. There is no cluster; e2e/suites/backup.test.ts tests the rest of
 * a restore at a small size: keys, the release, the exchange of credentials, gates and pods.
 */
export async function run({ quick }: SoakOptions): Promise<SoakReport> {
  const directory = await mkdtemp(join(tmpdir(), 'space-soak-restore-'));
  const undo: (() => Promise<void>)[] = [() => rm(directory, { recursive: true, force: true })];
  try {
    const shipped = asShipped();
    const beside = await limitTo('postgres', shipped);
    undo.unshift(beside.remove);
    const carrying = await limitTo('bucket', shipped);
    undo.unshift(carrying.remove);
    const buckets = await openBuckets(join(directory, 'keys'), carrying);
    undo.unshift(buckets.remove);
    const server = await openServer(join(directory, 'server'), buckets, shipped, beside);
    undo.unshift(server.remove);
    await server.start();
    await beginArchive(server);
    const mounts = mountFiles(server, 'home');
    undo.unshift(async () => mounts.remove());
    const environment = { LOG_LEVEL: 'silent', ROLE_CONNECTION_LIMIT: '3' };
    return await tell(quick ? QUICK : WHOLE, {
      ...{ limits: [beside, carrying], server, buckets },
      startBroker: () => startTestBroker(mounts, { environment }),
    });
  } finally {
    for (const step of undo) await step();
  }
}

/** Creates the stanza, as the container of the backup does at its start. Until then, the server's attempts to archive fail and hold a lock. */
async function beginArchive(server: BackedUpServer): Promise<void> {
  const begun = () => server.inside('pgbackrest', `--config=${SETTINGS}`, '--stanza=space', 'stanza-create');
  await eventually(
    () =>
      begun().then(
        () => true,
        () => false,
      ),
    { what: 'the stanza of the backup exists' },
  );
}

async function tell(size: Size, space: Space): Promise<SoakReport> {
  const { server, buckets, limits } = space;
  const broker = await space.startBroker();
  const retired = await retire(broker);
  say('creating tenants');
  const tenants = await makeTenants(broker, size);
  await writeRows(tenants, size.rowBytes);
  await writeObjects(buckets.client, tenants, size.objectBytes);
  // Writing and archiving the rows themselves is not part of the cost of a backup.
  await archiveNow(server.places.server, new AbortController().signal);
  say('making a backup while clients write');
  const copy = () => Promise.all([server.backUp(), buckets.backup('copy')]);
  const cost = await costOf(tenants, buckets.client, copy, limits);
  const [ofDatabase = 0, ofBucket = 0] = await Promise.all(limits.map((limit) => limit.taken()));
  await buckets.backup('copy');
  const before = await contentsOf(space, tenants);
  say('making the error');
  const moment = await makeError(server, buckets.client, tenants);
  say('restoring one Capsule beside the existing one');
  const one = await restoreOne(server, buckets, broker, moment, { tenants, rows: before.rows });
  await broker.stop();
  await server.lose();
  buckets.lose();
  say('trying damaged backups');
  const accepted = await acceptedDamage(server, buckets, moment);
  say('restoring everything');
  const { restored, ...times } = await restoreTo(moment, space);
  try {
    const after = await contentsOf(space, tenants);
    const lost = [
      ...differences(before.rows, after.rows),
      ...differences(before.objects, after.objects),
      ...one.lost,
    ];
    const open = await acceptedOf(retired, restored);
    const undone = (moment.getTime() - (await newestTick(tenants))) / 1_000;
    const holds =
      times.all <= MOST.restoreSeconds &&
      one.all <= MOST.capsuleSeconds &&
      undone <= MOST.undoneSeconds &&
      cost.percent <= MOST.costPercent;
    return {
      passed: lost.length + open.length + accepted.length === 0 && holds,
      title: `Restore of the data of ${size.capsules} Capsules and ${size.assistants} Assistants (${size.rowBytes / MIB} MiB of rows and as many of objects) to a moment, without a cluster`,
      rows: [
        { what: 'duration of the first backup, s', measured: cost.seconds, most: '' },
        { what: 'processor time of PostgreSQL’s copy, s', measured: ofDatabase, most: '' },
        { what: 'processor time of the bucket’s copy, s', measured: ofBucket, most: '' },
        { what: 'transactions during the backup, % of those without', measured: cost.transactions, most: '' },
        { what: 'uploads during the backup, % of those without', measured: cost.uploads, most: '' },
        { what: 'throughput lost to the backup, %', measured: cost.percent, most: MOST.costPercent },
        {
          what: 'one Capsule: until the scratch server has reached the moment, s',
          measured: one.scratch,
          most: '',
        },
        {
          what: 'one Capsule: until its rows and objects are restored, s',
          measured: one.all,
          most: MOST.capsuleSeconds,
        },
        { what: 'checks of the backup, s', measured: times.look, most: '' },
        { what: 'restore of the database, s', measured: times.database, most: '' },
        { what: 'restore of the objects, in parallel, s', measured: times.objects, most: '' },
        { what: 'start of server and database broker, s', measured: times.begin, most: '' },
        {
          what: 'from an empty volume to the first answers, s',
          measured: times.all,
          most: MOST.restoreSeconds,
        },
        {
          what: 'restored state is older than the requested moment by, s',
          measured: undone,
          most: MOST.undoneSeconds,
        },
        { what: 'databases and objects that differ from before', measured: lost.length, most: 0 },
        {
          what: 'retired database URLs and principals that still give access',
          measured: open.length,
          most: 0,
        },
        { what: 'damaged backups that were not refused', measured: accepted.length, most: 0 },
      ],
      figures: {
        restore_seconds: times.all,
        capsule_seconds: one.all,
        cost_percent: cost.percent,
        undone_seconds: undone,
        lost: lost.length,
        open: open.length,
      },
      notes: [...lost, ...open, ...accepted].slice(0, 10),
    };
  } finally {
    await restored.stop();
  }
}

async function contentsOf({ buckets }: Space, tenants: readonly Tenant[]) {
  return { rows: await digestOfRows(tenants), objects: await digestOfObjects(buckets.client) };
}

/** Restores both at once, as `npm run restore` does, and then starts the broker. Returns the seconds. */
async function restoreTo(moment: Date, { server, buckets, startBroker }: Space) {
  const started = performance.now();
  const since = () => (performance.now() - started) / 1_000;
  const at = moment.toISOString();
  await checkBackup(server, buckets, at);
  const looked = since();
  const [database, objects] = await Promise.all([
    server
      .inside('/bin/sh', '/usr/share/space/restore.sh', at.replace('T', ' ').replace('Z', '+00'))
      .then((said) => {
        for (const line of said.trim().split('\n')) say(line);
        return since();
      }),
    buckets.backup('restore', '--at', at).then(since),
  ]);
  const filled = since();
  await server.start();
  const restored = await startBroker();
  const all = since();
  return { restored, look: looked, database, objects, begin: all - filled, all };
}

const say = (text: string) => console.error(`… ${text}`);
