/**
 * Upgrades a whole Space of version 0.1.0, with gVisor, data and a writer, as docs/chart.md says. It has a cluster of
 * its own, and builds that version's images, so it is no part of `npm test`: `npx vitest run --project nightly`, or
 * `npm run nightly` with the suites.
 */
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { eventually } from '../../testing/eventually.ts';
import { bringUp, type Cluster, S3_SERVER, takeDown } from '../cluster/index.ts';
import { createSteps } from '../progress/index.ts';
import { CHART, IMAGE_VALUES } from '../space/chart.ts';
import { waitReady } from '../space/example.ts';
import { IMAGE_SOURCES, referenceOf } from '../space/images.ts';
import { createKube, type Finished, finish, type Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { rolledOut } from '../space/rollout.ts';
import { EARLIER_CHART, type Earlier, openEarlier } from './earlier.ts';
import { type LedgerLoad, startLedgerLoad, type Written } from './ledger-load.ts';

const CLUSTER = 'space-test-upgrade';
const API_PORT = 17446;
const [HOME, SERVICES, SYSTEM] = ['home', 'home-services', 'home-system'] as const;
const CAPSULES = ['household', 'shop'] as const;
const SINGLE = ['operator', 'dbBroker', 'objectStore', 'egress'].map((part) => `${part}.replicas=1`);
/** Rows in each ledger's database in addition to the ledger's own. */
const ROWS = 100_000;
/** How long the load runs before and after the upgrade. */
const MOMENT_MS = 20_000;

const steps = createSteps();
let cluster: Cluster;
let kube: Kube;
let earlier: Earlier;
let helm: (...args: readonly string[]) => Promise<Finished>;
/** The namespace of each Capsule. */
const inside: Record<string, string> = {};
const loads: Record<string, LedgerLoad> = {};
const written: Record<string, Written> = {};
const before: Record<string, unknown> = {};
let seconds = 0;

function must({ code, stdout, stderr }: Finished): string {
  if (code !== 0) throw new Error((stderr || stdout).trim());
  return stdout.trim();
}

const psql = async (database: string, sql: string) =>
  must(
    await kube.exec(SERVICES, 'postgres-0', ['psql', '-XAtq', '-U', 'postgres', '-d', database, '-c', sql]),
  );

async function databaseOf(capsule: string): Promise<string> {
  const secret = await kube.get('secret', 'ledger-database', inside[capsule]);
  return new URL(Buffer.from(secret?.['data'].DATABASE_URL, 'base64').toString()).pathname.slice(1);
}

/** Names and contents of what a Capsule's Assistant has while nothing writes to it. */
async function stateOf(capsule: string): Promise<unknown> {
  const database = await databaseOf(capsule);
  const rows = await psql(database, "SELECT count(*), md5(string_agg(b::text, ';' ORDER BY id)) FROM bulk b");
  const { metadata } = (await kube.get('namespace', inside[capsule] ?? ''))!;
  return { database, rows, namespace: (metadata as { uid?: string }).uid };
}

async function fill(capsule: string): Promise<void> {
  const database = await databaseOf(capsule);
  const table = 'CREATE TABLE bulk (id integer PRIMARY KEY, text text)';
  const rows = `INSERT INTO bulk SELECT i, md5(i::text) || repeat('x', i % 64) FROM generate_series(1, ${ROWS}) i`;
  await psql(database, `SET ROLE "${database}"; ${table}; ${rows}`);
}

async function examplesOf(image: string): Promise<object[]> {
  const read = async (file: string) =>
    parse(await readFile(join(earlier.examples, file), 'utf8')) as KubeObject;
  const [capsule, assistant] = await Promise.all([read('household.yaml'), read('ledger.yaml')]);
  return CAPSULES.flatMap((name) => [
    { ...capsule, metadata: { name, namespace: HOME } },
    {
      ...assistant,
      metadata: { name: `${name}-ledger`, namespace: HOME },
      spec: { ...assistant['spec'], capsule: name, image },
    },
  ]);
}

async function allReady(): Promise<void> {
  await steps.run('Capsules and Assistants', async (step) => {
    for (const name of CAPSULES) {
      inside[name] = (await waitReady(kube, 'capsule', name, HOME, step))['status'].namespace;
      await waitReady(kube, 'assistant', `${name}-ledger`, HOME, step);
    }
  });
}

async function installEarlier(): Promise<void> {
  const references = await cluster.loadImages(Object.values(earlier.images), steps);
  const reference = (image: { name: string }) => references.get(image.name) ?? '';
  const { ledger, ...images } = earlier.images;
  await steps.run('Space of version 0.1.0', async (step) => {
    must(await kube.run(['apply', '--server-side', '-f', earlier.crds]));
    const labels = { 'platform.space/space': HOME, 'pod-security.kubernetes.io/enforce': 'restricted' };
    await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: HOME, labels } });
    const values = Object.entries(images).map(([value, image]) => `${value}=${reference(image)}`);
    const set = [...values, ...SINGLE].flatMap((value) => ['--set', value]);
    must(await helm('install', HOME, EARLIER_CHART, '--skip-crds', ...set));
    await rolledOut(kube, [HOME, SERVICES], step);
  });
  await kube.apply(...(await examplesOf(reference(ledger))));
  await allReady();
}

/** Upgrades by the two commands of docs/chart.md. */
async function upgrade(): Promise<void> {
  const references = await cluster.loadImages(IMAGE_SOURCES, steps);
  const s3 = `${S3_SERVER.name}:${S3_SERVER.tag}`;
  const images = IMAGE_VALUES.map(
    (value) => `${value}=${value === 's3.image' ? s3 : referenceOf(references, value)}`,
  );
  const set = [...images, 'image.allowTags=true', 'console.replicas=1'].flatMap((value) => ['--set', value]);
  await steps.run('upgrade', async (step) => {
    const started = performance.now();
    must(await kube.run(['apply', '--server-side', '--force-conflicts', '-f', join(CHART, 'crds')]));
    must(await helm('upgrade', HOME, CHART, '--skip-crds', '--reset-then-reuse-values', ...set));
    await rolledOut(kube, [SERVICES, SYSTEM], step);
    seconds = (performance.now() - started) / 1000;
  });
}

describe.skipIf(process.getuid?.() !== 0)(
  'a Space of version 0.1.0, upgraded while it is used (needs root)',
  () => {
    beforeAll(async () => {
      earlier = await openEarlier();
      await takeDown(CLUSTER, { steps });
      const images = [...Object.values(earlier.images), ...IMAGE_SOURCES];
      cluster = await bringUp({ name: CLUSTER, apiPort: API_PORT, images, steps });
      kube = createKube(await cluster.tool('kubectl'), cluster.kubeconfig);
      const program = await cluster.tool('helm');
      helm = (...args) => finish(program, ['--kubeconfig', cluster.kubeconfig, '-n', HOME, ...args]);
      await installEarlier();
      for (const name of CAPSULES) {
        await fill(name);
        before[name] = await stateOf(name);
        loads[name] = startLedgerLoad(kube, inside[name] ?? '');
      }
      await pause(MOMENT_MS);
      await upgrade();
      await allReady();
      await pause(MOMENT_MS);
      for (const name of CAPSULES) written[name] = await loads[name]!.stop();
    }, 3_600_000);
    afterAll(async () => {
      await Promise.all(Object.values(loads).map((load) => load.stop()));
      if (process.env['SPACE_KEEP'] !== '1') await takeDown(CLUSTER, { steps });
      await earlier?.remove();
      steps.close();
      const of = Object.entries(written).map(
        ([name, { entries, statements, failed, longestGapMs }]) =>
          `${name}: ${entries.length} entries and ${statements.size} files answered, ${failed} failed, ${(longestGapMs / 1000).toFixed(1)} s without an answer at most`,
      );
      console.log([`upgraded in ${seconds.toFixed(0)} s`, ...of].join('\n'));
    }, 600_000);

    it.each(CAPSULES)('%s keeps its namespace, its database and each row', async (name) => {
      expect(await stateOf(name)).toEqual(before[name]);
    });

    it.each(CAPSULES)('%s lost no entry that was confirmed', async (name) => {
      const { entries } = written[name]!;
      const rows = await psql(
        await databaseOf(name),
        "SELECT idempotency_key FROM entry WHERE description LIKE 'load-%'",
      );
      const kept = new Set(rows.split('\n'));
      expect(entries.length).toBeGreaterThan(20);
      expect(entries.filter((key) => !kept.has(key))).toEqual([]);
      expect(new Set(entries).size).toBe(entries.length);
    });

    it.each(CAPSULES)('%s lost no file that was confirmed', async (name) => {
      const { statements } = written[name]!;
      expect(statements.size).toBeGreaterThan(20);
      for (const [month, statement] of statements) {
        const read = () => kube.proxy(inside[name] ?? '', 'ledger:8080', `/statements/${month}`);
        const kept = await eventually(read, { what: `${name}'s statement of ${month}` });
        expect(kept).toMatchObject({ month, statement });
      }
    });

    it('has all its Capsules and Assistants as they were, and creates another', async () => {
      const [household] = await examplesOf('');
      await kube.apply({ ...household, metadata: { name: 'later', namespace: HOME } });
      await steps.run('another Capsule', (step) => waitReady(kube, 'capsule', 'later', HOME, step));
    });

    it('leaves nothing of a Capsule that the earlier version created, once it is deleted', async () => {
      const database = await databaseOf('shop');
      await kube.remove('capsule', 'shop', HOME);
      await eventually(async () => (await kube.get('capsule', 'shop', HOME)) === undefined, {
        what: 'the Capsule is gone',
        within: 600_000,
      });
      const left = `SELECT count(*) FROM pg_database WHERE datname = '${database}' UNION ALL SELECT count(*) FROM pg_roles WHERE rolname = '${database}'`;
      expect(await psql('postgres', left)).toBe('0\n0');
      expect(await kube.get('namespace', inside['shop'] ?? '')).toBeUndefined();
      expect(await kube.list('secrets', SYSTEM, 'platform.space/capsule=shop')).toEqual([]);
    });
  },
);
