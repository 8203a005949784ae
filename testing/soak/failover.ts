import { setTimeout as wait } from 'node:timers/promises';
import { mountFiles, startTestBroker } from '../../brokers/db/testing/broker.ts';
import { census } from '../../brokers/db/testing/census.ts';
import { query } from '../../brokers/db/testing/postgres.ts';
import { eventually } from '../eventually.ts';
import { type Cluster, startCluster } from './failover/cluster.ts';
import { type Load, startLoad } from './failover/load.ts';
import type { Node } from './failover/node.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/**
 * Runs a database broker and tenants' databases on three PostgreSQL servers that Patroni manages, with synchronous replication.
 * The primary repeatedly hands over or is killed, while callers create and drop databases and tenants write rows.
 */

const TIMES = 5;
/** The limit for the time from the new primary's first write to the broker's first answer. */
const BACK_MS = 5_000;
/** The time of undisturbed work between two changes. */
const SETTLED_MS = 5_000;

type Kind = 'switchover' | 'killed';

interface Change {
  readonly kind: Kind;
  /** The longest time without an answer to a repeated create. */
  readonly outage: number;
  /** The time from the new primary's first write to the first answer of each kind. */
  readonly back: Readonly<Record<keyof Load['at'], number>>;
}

export async function run({ quick, kills }: SoakOptions): Promise<SoakReport> {
  const times = kills ?? (quick ? 1 : TIMES);
  const cluster = await startCluster();
  const mounts = mountFiles({ brokerUrl: cluster.brokerUrl, port: cluster.port }, 'failover');
  const broker = await startTestBroker(mounts, { environment: { LOG_LEVEL: 'debug' } });
  try {
    const load = await startLoad(await broker.capsule('moving'));
    const changes: Change[] = [];
    for (let i = 1; i <= times; i += 1)
      for (const kind of ['switchover', 'killed'] as const) {
        await wait(SETTLED_MS);
        changes.push(await change(cluster, load, kind));
        console.error(`${kind} ${i} of ${times}: ${JSON.stringify(changes.at(-1))}`);
      }
    await wait(SETTLED_MS);
    const { lost, problems } = await load.end();
    problems.push(...(await census(cluster.superuserUrl)));
    return reportOf(cluster, load, changes, lost, problems);
  } finally {
    await broker.stop();
    mounts.remove();
    await cluster.remove();
  }
}

/** Removes the primary, and waits until another replaces it and the cluster is complete again. */
async function change(cluster: Cluster, load: Load, kind: Kind): Promise<Change> {
  const from = await cluster.primary();
  if (from === undefined) throw new Error('the cluster has no primary');
  const others = cluster.nodes.filter((node) => node !== from);
  const started = performance.now();
  const acceptance = acceptedBy(cluster, others);
  await (kind === 'killed' ? from.lose() : cluster.switchover(from));
  const accepted = await acceptance;
  const first = (times: readonly number[]) =>
    eventually(() => times.find((at) => at > accepted), { what: 'an answer after the new primary wrote' });
  const { repeats, changes, rows } = load.at;
  const back = { repeats: await first(repeats), changes: await first(changes), rows: await first(rows) };
  if (kind === 'killed') from.start();
  await cluster.whole();
  return {
    kind,
    outage: longestGap(repeats, started),
    back: {
      repeats: back.repeats - accepted,
      changes: back.changes - accepted,
      rows: back.rows - accepted,
    },
  };
}

/** The time at which one of these standbys, as the new primary, has answered a COMMIT, for which it needs a standby of its own. */
async function acceptedBy(cluster: Cluster, nodes: readonly Node[]): Promise<number> {
  const write = async ({ port }: Node) => {
    const url = new URL(cluster.superuserUrl);
    url.port = String(port);
    await query(url.href, "SELECT pg_logical_emit_message(true, 'space', '')");
    return performance.now();
  };
  const what = 'a standby to become primary';
  let done = false;
  try {
    return await Promise.any(nodes.map((node) => eventually(() => (done ? 1 : write(node)), { what })));
  } finally {
    done = true;
  }
}

/** The longest time without an answer since `since`. */
function longestGap(times: readonly number[], since: number): number {
  const from = times.filter((at) => at >= since);
  return Math.max(...from.map((at, i) => at - (from[i - 1] ?? since)));
}

function reportOf(
  cluster: Cluster,
  load: Load,
  changes: readonly Change[],
  lost: readonly string[],
  problems: readonly string[],
): SoakReport {
  const worst = (kind: Kind, of: (change: Change) => number) =>
    Math.max(...changes.filter((one) => one.kind === kind).map(of)) / 1_000;
  const kinds = ['switchover', 'killed'] as const;
  const slowest = Math.max(...changes.map(({ back }) => Math.min(back.repeats, back.changes)));
  return {
    passed: lost.length === 0 && problems.length === 0 && slowest <= BACK_MS,
    title: `Switchover and loss of the primary under load: ${cluster.versions}, three servers, synchronous replication`,
    rows: kinds.map((kind) => ({
      primary: kind,
      times: changes.filter((one) => one.kind === kind).length,
      'longest without an answer, s': worst(kind, ({ outage }) => outage),
      'to first repeated create, s': worst(kind, ({ back }) => back.repeats),
      'to first create or drop, s': worst(kind, ({ back }) => back.changes),
      'to first committed row, s': worst(kind, ({ back }) => back.rows),
    })),
    figures: {
      ...load.answered,
      refused: load.refusals,
      lost: lost.length,
      problems: problems.length,
      slowest_back_ms: Math.round(slowest),
    },
    notes: [
      'Each time is the longest of all changes. The last three are measured from the first COMMIT that the new primary answered.',
      ...lost.slice(0, 10).map((one) => `lost: ${one}`),
      ...problems.slice(0, 10),
    ],
  };
}
