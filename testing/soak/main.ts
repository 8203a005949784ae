/**
 * `npm run soak -- NAME [--quick] [--kills N] [--cluster] [--only PART,…] [--list] [--examples N] [--events N] [--server NAME]` runs a test
 * that takes longer than `npm test` may: kills, models, mutations, compatibility, fuzzing. Without a name it lists them. It prints a table
 * for people and then one JSON line for programs; the exit code is 1 if a check failed. `--quick` takes minutes.
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
    what: 'searches what consoles send, write and hold, and a real browser, for secrets, while a compromised object-storage broker gives 100,000 answers (--examples N)',
    load: () => import('./canary-console.ts'),
  },
  'chaos-db': {
    what: 'kills database brokers at random moments (2,000 times) while callers create, drop and finalize',
    load: () => import('./chaos-db.ts'),
  },
  'chaos-operator': {
    what: 'kills operator, brokers and PostgreSQL at random moments (500 times, --kills N) while users change everything; --cluster: in the Space of npm run up',
    load: () => import('./chaos-operator.ts'),
  },
  'compat-egress': {
    what: 'runs third-party HTTP clients through a tunnel of the gateway',
    load: () => import('./compat-egress.ts'),
  },
  'compat-objectstore': {
    what: 'runs third-party S3 clients (--only NAME,…) against the S3 listener of the object-storage broker; --server minio or seaweedfs: with a cluster of that server',
    load: () => import('./compat-objectstore.ts'),
  },
  conformance: {
    what: 'compares a million changes, anchors and answers (--events N) of real brokers, which are killed meanwhile, with the models',
    load: () => import('./conformance.ts'),
  },
  'custody-kills': {
    what: 'kills object-storage brokers (100 times) while they rotate a key',
    load: () => import('./custody-kills.ts'),
  },
  'custody-mutations': {
    what: 'makes 20,000 random mutations of stored credentials among 100,000 changes, and checks that exactly the mutations are detected',
    load: () => import('./custody-mutations.ts'),
  },
  'custody-revocation': {
    what: 'sends 10,000 requests to two replicas, none of which may use revoked credentials',
    load: () => import('./custody-revocation.ts'),
  },
  failover: {
    what: 'switches over and kills the primary of three PostgreSQL under Patroni (5 times each, --kills N) under load: no answered write may be lost, and the broker answers again within 5 s',
    load: () => import('./failover.ts'),
  },
  'fuzz-db': {
    what: "runs schemathesis against the database broker's OpenAPI document (--examples N requests of each operation)",
    load: () => import('./fuzz-db.ts'),
  },
  'fuzz-objectstore': {
    what: 'runs schemathesis against the documents of both listeners of the object-storage broker',
    load: () => import('./fuzz-objectstore.ts'),
  },
  'grant-revocation': {
    what: 'sends 10,000 requests for objects to two replicas, none of which may reach a bucket that is no longer selected',
    load: () => import('./grant-revocation.ts'),
  },
  'model-custody': {
    what: 'explores ten million states of the protocol between registry and bucket, and searches for each seeded defect',
    load: () => import('./model-custody.ts'),
  },
  'model-db': {
    what: 'compares 10,000 random schedules of operations, retries and callers with a sequential model of the database broker',
    load: () => import('./model-db.ts'),
  },
  'model-deletion': {
    what: 'explores ten million states of Capsules and Assistants that are deleted, retained and created again, and searches for each seeded defect',
    load: () => import('./model-deletion.ts'),
  },
  mutants: {
    what: 'changes one place at a time in files that decide about security (--only ROOM or FILE,…; --list), and checks that a test fails; --quick: only in lines that differ from main',
    load: () => import('./mutants.ts'),
  },
  restore: {
    what: 'loses the rows and objects of 50 Capsules (2 GiB) and restores them to a moment before an error, restores one Capsule beside the existing one, and measures what a backup costs',
    load: () => import('./restore.ts'),
  },
  's3-cluster': {
    what: 'kills nodes of an S3 server (three of SeaweedFS, or four with --server minio; 20 times, --kills N) while Assistants upload through the broker: nothing that was answered may be lost',
    load: () => import('./s3-cluster.ts'),
  },
  walls: {
    what: 'removes and opens each NetworkPolicy of the Space of npm run up (--only NAME,…), and checks that npm run verify shows it; --only rbac,admission,grants: changes roles, admission policies and grants, without a cluster',
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
