import { setTimeout as wait } from 'node:timers/promises';
import { startOwnStore } from '../../brokers/objectstore/byok/credentials/testing/byok.ts';
import { BUCKET, mountFiles } from '../../brokers/objectstore/testing/broker.ts';
import { type BrokerProcess, spawnBroker } from '../../brokers/objectstore/testing/process.ts';
import { eventually } from '../eventually.ts';
import { startEmbeddedServer } from '../postgres/server.ts';
import { type Random, seeded } from '../random.ts';
import { administrator, auditAccount } from './s3-cluster/accounts.ts';
import type { Caller, Counts } from './s3-cluster/caller.ts';
import { DEFAULT_PRODUCT, type S3Cluster, startS3Cluster } from './s3-cluster/cluster.ts';
import { CONTROL_BUCKET, Control } from './s3-cluster/control.ts';
import { type CredentialChanger, createCredentialChanger } from './s3-cluster/credentials.ts';
import { newCaller, newCapsule } from './s3-cluster/tenants.ts';
import { longestGap, Watch } from './s3-cluster/watch.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/**
 * Runs brokers on an S3 server of several nodes. One node, and at times two, is killed repeatedly while Assistants upload, copy, list
 * and delete, and credentials change. Answers must stay true, during the run and afterwards. A client without a broker does the
 * same, which distinguishes losses of the server from losses of the brokers.
 */

const KILLS = 20;
const QUICK_KILLS = 3;
const BROKERS = 2;
const CALLERS = 5;
/** One of this many kills takes two nodes, so that the others are too few to write. */
const TWO_OF = 4;
/** The time of undisturbed work between two kills. */
const SETTLED_MS = 3_000;
const DOWN_MS = { least: 3_000, most: 8_000 };

interface Kill {
  readonly nodes: number;
  /** The longest time without an answer to any write, and to any read, until all nodes serve again. */
  readonly writes: number;
  readonly reads: number;
  /** The longest time that one caller waited for one operation. */
  readonly slowest: number;
  /** The time from the restart of the nodes to the next answer to a write. */
  readonly back: number;
}

export async function run({
  quick,
  kills,
  server: product = DEFAULT_PRODUCT,
}: SoakOptions): Promise<SoakReport> {
  const times = kills ?? (quick ? QUICK_KILLS : KILLS);
  const closers: (() => unknown)[] = [];
  try {
    const cluster = await startS3Cluster(product);
    closers.push(() => cluster.remove());
    await cluster.makeBucket(BUCKET);
    await cluster.makeBucket(CONTROL_BUCKET);
    // Commits must survive brokers but not the machine.
    const server = await startEmbeddedServer({ durable: false, settings: { synchronous_commit: 'on' } });
    closers.push(() => server.remove());
    const store = await startOwnStore();
    closers.push(() => store.remove());
    const mounts = mountFiles(server.objectStoreUrl, cluster, 'cluster');
    closers.push(() => mounts.remove());
    const environment = { ...mounts.environment, ...store.environment };
    const brokers: BrokerProcess[] = [];
    closers.push(() => Promise.all(brokers.map((broker) => broker.kill())));
    while (brokers.length < BROKERS) brokers.push(await spawnBroker(environment));

    const watch = new Watch();
    const callers: Caller[] = [];
    while (callers.length < CALLERS)
      callers.push(
        await newCaller(brokers, mounts, `writer-${callers.length + 1}`, watch, callers.length + 1),
      );
    const keeper = createCredentialChanger({
      clients: await newCapsule(brokers, mounts, 'keeper'),
      bases: brokers.map(({ dataUrl }) => dataUrl),
      ...{ store, watch },
    });
    let isOver = false;
    const ended = () => isOver;
    const control = new Control(cluster, seeded(0));
    const working = Promise.all([...callers, keeper, control].map((one) => one.run(ended)));
    // The error is reported below; the brokers end earlier only if something else has failed.
    working.catch(() => undefined);

    const all: Kill[] = [];
    const random = seeded(times);
    while (all.length < times) {
      await wait(SETTLED_MS);
      all.push(await killNodes(cluster, watch, (all.length + 1) % TWO_OF === 0 ? 2 : 1, random));
      console.error(`kill ${all.length} of ${times}: ${JSON.stringify(all.at(-1))}`);
    }
    await wait(SETTLED_MS);
    isOver = true;
    await working;

    for (const one of [...callers, control]) await one.verify();
    const problems = [...watch.problems, ...(await anchorsOf(environment))];
    let over = 0;
    for (const [i, caller] of callers.entries()) {
      await caller.abortUploads();
      const audit = await auditAccount(server, environment, `writer-${i + 1}`, caller.ledger);
      problems.push(...audit.problems);
      over = Math.max(over, audit.over);
    }
    return reportOf(cluster, { watch, callers, keeper, control, kills: all, problems, over });
  } finally {
    for (const close of closers.toReversed()) await close();
  }
}

async function killNodes(cluster: S3Cluster, watch: Watch, count: number, random: Random): Promise<Kill> {
  const first = random(cluster.nodes.length);
  const doomed = Array.from({ length: count }, (_, i) => cluster.nodes[(first + i) % cluster.nodes.length]);
  watch.takeSlowest();
  const started = performance.now();
  await Promise.all(doomed.map((node) => node?.kill()));
  await wait(DOWN_MS.least + random(DOWN_MS.most - DOWN_MS.least));
  const again = performance.now();
  for (const node of doomed) node?.start();
  const answered = () => watch.at.writes.find((at) => at > again);
  const back = await eventually(answered, { what: 'a write is answered after the nodes were started' });
  await cluster.whole();
  return {
    nodes: count,
    writes: longestGap(watch.at.writes, started),
    reads: longestGap(watch.at.reads, started),
    slowest: watch.takeSlowest(),
    back: back - again,
  };
}

/** Capsules whose credential sets differ from their anchor. */
async function anchorsOf(environment: Readonly<Record<string, string>>): Promise<readonly string[]> {
  const said = await administrator(environment, 'custody');
  return said
    .trim()
    .split('\n')
    .filter((line) => JSON.parse(line).state !== 'agree')
    .map((line) => `anchor: ${line}`);
}

interface Outcome {
  readonly watch: Watch;
  readonly callers: readonly Caller[];
  readonly keeper: CredentialChanger;
  readonly control: Control;
  readonly kills: readonly Kill[];
  readonly problems: readonly string[];
  /** The most bytes that a Capsule counts in addition to what it stores. */
  readonly over: number;
}

function reportOf(
  cluster: S3Cluster,
  { watch, callers, keeper, control, kills, problems, over }: Outcome,
): SoakReport {
  const lost = [...callers.flatMap((caller) => caller.lost), ...keeper.lost];
  const worst = (nodes: number, of: (kill: Kill) => number) =>
    Math.max(0, ...kills.filter((one) => one.nodes === nodes).map(of)) / 1_000;
  const sum = (name: keyof Counts) => callers.reduce((total, { counts }) => total + counts[name], 0);
  const refusals = [...watch.refusals].map(([name, times]) => `${times} × ${name}`);
  return {
    passed: lost.length === 0 && problems.length === 0,
    title: `Nodes killed while objects are uploaded: ${cluster.title}, behind HAProxy, ${BROKERS} brokers`,
    rows: [1, 2].map((nodes) => ({
      'nodes killed': nodes,
      times: kills.filter((one) => one.nodes === nodes).length,
      'longest without a write, s': worst(nodes, ({ writes }) => writes),
      'longest without a read, s': worst(nodes, ({ reads }) => reads),
      'longest wait of one caller, s': worst(nodes, ({ slowest }) => slowest),
      'first write after the start, s': worst(nodes, ({ back }) => back),
    })),
    figures: {
      puts: sum('puts'),
      uploads: sum('uploads'),
      copies: sum('copies'),
      deletes: sum('deletes'),
      reads: sum('reads'),
      lists: sum('lists'),
      changes_of_sets: keeper.changes.sets,
      changes_of_principals: keeper.changes.principals,
      refused: [...watch.refusals.values()].reduce((total, times) => total + times, 0),
      reads_cut: watch.cutReads,
      uploads_gone: watch.uploadsGone,
      counted_over_bytes: over,
      lost: lost.length,
      lost_by_the_server_itself: control.lost.length,
      problems: problems.length,
    },
    notes: [
      'Each time is the longest after one kill. Callers repeat a request 0.1 s after each refusal.',
      `Refusals: ${refusals.join(', ') || 'none'}.`,
      'lost_by_the_server_itself counts answers of the S3 server to a client without a broker that do not hold.',
      ...lost.slice(0, 10).map((one) => `lost: ${one}`),
      ...control.lost.slice(0, 10).map((one) => `lost by the server itself: ${one}`),
      ...problems.slice(0, 10),
    ],
  };
}
