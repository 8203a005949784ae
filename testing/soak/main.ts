/**
 * `npm run soak -- NAME [--quick] [--kills N] [--cluster] [--only PART,…] [--list] [--examples N] [--events N] [--server NAME]`: what goes on for longer than
 * `npm test` may: kills, models, mutations, compatibility, fuzzing. Without a name it lists them. Prints a table for people, ends with
 * one JSON line for machines, and with 1 when something did not hold. `--quick` ends within minutes.
 */
import { commandLine } from '../../scripts/command-line.ts';
import { printReport } from '../report.ts';
import type { Soak } from './soak.ts';

interface Entry {
  readonly what: string;
  load(): Promise<Soak>;
}

const SOAKS: Readonly<Record<string, Entry>> = {
  'canary-console': {
    what: '100,000 answers of a taken-over object-storage broker (--examples N): no secret in what the console sends, writes or holds, nor in a real browser',
    load: () => import('./canary-console.ts'),
  },
  'chaos-db': {
    what: 'database brokers killed at random moments (2,000 times) while callers create, drop and finalize',
    load: () => import('./chaos-db.ts'),
  },
  'chaos-operator': {
    what: 'operator, brokers and PostgreSQL killed (500 times, --kills N) while users change everything; --cluster: on the Space that is up',
    load: () => import('./chaos-operator.ts'),
  },
  'compat-egress': {
    what: 'HTTP clients that are not ours, through a tunnel of the gateway',
    load: () => import('./compat-egress.ts'),
  },
  'compat-objectstore': {
    what: 'S3 clients that are not ours (--only NAME,…), against the S3 listener of the object-storage broker; --server minio or seaweedfs: on a cluster of those',
    load: () => import('./compat-objectstore.ts'),
  },
  conformance: {
    what: 'a million changes, anchors and answers (--events N) of real brokers that are killed: each is one that the models permit',
    load: () => import('./conformance.ts'),
  },
  'custody-kills': {
    what: 'object-storage brokers killed (100 times) while they rotate a key',
    load: () => import('./custody-kills.ts'),
  },
  'custody-mutations': {
    what: '20,000 random mutations of stored credentials among 100,000 changes: each is noticed, nothing else is',
    load: () => import('./custody-mutations.ts'),
  },
  'custody-revocation': {
    what: 'requests at two replicas (10,000) that might use credentials which were revoked',
    load: () => import('./custody-revocation.ts'),
  },
  failover: {
    what: 'the primary of three PostgreSQL under Patroni handed over and killed (5 times each, --kills N) under load: no answered write lost, back within 5 s',
    load: () => import('./failover.ts'),
  },
  'fuzz-db': {
    what: "schemathesis against the database broker's OpenAPI document (--examples N of each operation)",
    load: () => import('./fuzz-db.ts'),
  },
  'fuzz-objectstore': {
    what: 'the same against the documents of both listeners of the object-storage broker',
    load: () => import('./fuzz-objectstore.ts'),
  },
  'grant-revocation': {
    what: 'requests for objects at two replicas (10,000) that might go where they may not go any more',
    load: () => import('./grant-revocation.ts'),
  },
  'model-custody': {
    what: 'ten million states of the protocol between registry and bucket, and each of its seeded defects',
    load: () => import('./model-custody.ts'),
  },
  'model-db': {
    what: '10,000 random schedules of operations, retries and callers against a sequential model of the database broker',
    load: () => import('./model-db.ts'),
  },
  'model-deletion': {
    what: 'ten million states of Capsules and Assistants that are deleted, kept and made again, and each of its seeded defects',
    load: () => import('./model-deletion.ts'),
  },
  mutants: {
    what: 'one change after the other in files that decide about security (--only ROOM or FILE,…; --list): a test fails then; --quick: of the lines that differ from main',
    load: () => import('./mutants.ts'),
  },
  restore: {
    what: 'rows and objects of 50 Capsules (2 GiB) lost and made again as of a moment before an error, and of one of them beside it; what a backup costs meanwhile',
    load: () => import('./restore.ts'),
  },
  's3-cluster': {
    what: 'nodes of an S3 server (three of SeaweedFS, or four of --server minio) killed (20 times, --kills N) while Assistants upload through the broker: nothing answered is lost',
    load: () => import('./s3-cluster.ts'),
  },
  walls: {
    what: 'each NetworkPolicy of the Space that is up taken away and opened (--only NAME,…): a cell of npm run verify flips; --only rbac,admission,grants: each of those, which takes no cluster: a test fails',
    load: () => import('./walls.ts'),
  },
};

const USAGE =
  'usage: npm run soak -- NAME [--quick] [--kills N] [--cluster] [--only PART,…] [--list] [--examples N] [--events N] [--server NAME]';

const { values, positionals } = commandLine(USAGE, {
  allowPositionals: true,
  options: {
    quick: { type: 'boolean', default: false },
    kills: { type: 'string' },
    cluster: { type: 'boolean', default: false },
    only: { type: 'string' },
    list: { type: 'boolean', default: false },
    examples: { type: 'string' },
    events: { type: 'string' },
    server: { type: 'string' },
  },
});
const [name = ''] = positionals;
const soak = Object.hasOwn(SOAKS, name) && positionals.length === 1 ? SOAKS[name] : undefined;
if (soak === undefined) {
  console.error(`${USAGE}\n`);
  for (const [known, { what }] of Object.entries(SOAKS)) console.error(`  ${known.padEnd(18)}  ${what}`);
  process.exit(positionals.length === 0 ? 0 : 2);
}

const { quick, cluster, list, kills, only, examples, events, server } = values;
const { run } = await soak.load();
const started = performance.now();
const { passed, ...report } = await run({
  ...{ quick, cluster, list },
  ...(kills === undefined ? {} : { kills: Number(kills) }),
  ...(only === undefined ? {} : { only: only.split(',') }),
  ...(examples === undefined ? {} : { examples: Number(examples) }),
  ...(events === undefined ? {} : { events: Number(events) }),
  ...(server === undefined ? {} : { server }),
});
printReport(report, { soak: name, quick, passed }, performance.now() - started);
process.exitCode = passed ? 0 : 1;
