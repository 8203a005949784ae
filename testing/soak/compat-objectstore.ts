import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import {
  BUCKET,
  mountFiles,
  startTestBroker,
  type TestBroker,
} from '../../brokers/objectstore/testing/broker.ts';
import { openFixture } from '../../brokers/objectstore/testing/fixture.ts';
import { startEmbeddedServer } from '../postgres/server.ts';
import { CLIENTS, type Client, type Setting, settingOf } from './compat-objectstore/clients.ts';
import { tableOfPage } from './compat-objectstore/table.ts';
import { Missing, type Outcome } from './outcome.ts';
import { startS3Cluster } from './s3-cluster/cluster.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/**
 * Runs unmodified S3 clients from PyPI, Maven Central, Go modules and Debian against the broker's S3 interface. The AWS SDK for
 * JavaScript is tested in `npm test`. It needs `python3` with `pip`, `go`, `mvn` with a JDK, `apt-get`, and root with FUSE;
 * clients that are impossible on this machine are reported and skipped. The exit code is 1 if a case fails.
 */

interface Tried {
  readonly client: string;
  readonly version: string;
  readonly outcomes: readonly Outcome[];
  readonly missing?: string;
}

/** This is quick, so `--quick` changes nothing; `--only` names clients, `--server` another S3 server than the usual one. */
export async function run({ only, server }: SoakOptions): Promise<SoakReport> {
  const directory = mkdtempSync(join(tmpdir(), 'space-compat-'));
  const fixture = server === undefined ? await openFixture() : await openOnCluster(server);
  try {
    const setting = settingOf(fixture.broker, directory);
    const wanted = CLIENTS.filter(({ name }) => only === undefined || only.includes(name));
    const all: Tried[] = [];
    for (const client of wanted) {
      const one = await tried(client, setting);
      console.error(`${one.client} ${one.version}: ${one.outcomes.length} cases`);
      all.push(one);
    }
    const outcomes = all.flatMap((one) => one.outcomes);
    const failed = outcomes.filter((one) => one.failed !== undefined);
    return {
      passed: failed.length === 0,
      title: `Third-party S3 clients against the object-storage broker${server === undefined ? '' : ` with a cluster of ${server}`}`,
      rows: all.map(({ client, version, outcomes: played }) => ({
        client,
        version,
        cases: played.length,
        failed: played.filter((one) => one.failed !== undefined).length,
      })),
      figures: { cases: outcomes.length, failed: failed.length },
      notes: [
        ...failed.map((one) => `${one.by}: ${one.case}: ${one.failed}`),
        ...all.flatMap(({ client, missing }) => (missing === undefined ? [] : [`${client}: ${missing}`])),
        ...differences(all),
      ],
    };
  } finally {
    await fixture.close();
    rmSync(directory, { recursive: true, force: true });
  }
}

/** Opens a broker on a cluster of this kind, whose nodes all keep running. */
async function openOnCluster(
  product: string,
): Promise<{ readonly broker: TestBroker; close(): Promise<void> }> {
  const closers: (() => unknown)[] = [];
  const close = async () => {
    for (const one of closers.toReversed()) await one();
  };
  try {
    const cluster = await startS3Cluster(product);
    closers.push(() => cluster.remove());
    await cluster.makeBucket(BUCKET);
    const registry = await startEmbeddedServer({ durable: false });
    closers.push(() => registry.remove());
    const mounts = mountFiles(registry.objectStoreUrl, cluster);
    closers.push(() => mounts.remove());
    const broker = await startTestBroker(mounts);
    closers.push(() => broker.stop());
    return { broker, close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function tried({ name, version = 'unknown', play }: Client, setting: Setting): Promise<Tried> {
  try {
    const played = await play(setting);
    return 'outcomes' in played ? { client: name, ...played } : { client: name, version, outcomes: played };
  } catch (error) {
    const outcomes = [{ by: name, case: 'all', failed: String(error).slice(-800) }];
    return error instanceof Missing
      ? { client: name, version, outcomes: [], missing: error.message }
      : { client: name, version, outcomes };
  }
}

/** Clients for which docs/wire names another version, or another number of cases. */
function differences(all: readonly Tried[]): readonly string[] {
  const page = tableOfPage();
  return all.flatMap(({ client, version, outcomes, missing }) => {
    const row = page.find((one) => one.client === client);
    const same = row?.version === version && row.cases === outcomes.length;
    return same || missing !== undefined
      ? []
      : [
          `docs/wire/objectstore-data.md has another row than this run: | ${client} | ${version} | ${outcomes.length} |`,
        ];
  });
}
