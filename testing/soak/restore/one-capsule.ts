/** Restores one Capsule beside the existing one, with the parts of `npm run restore -- --capsule` that move data. */
import type { TestBroker } from '../../../brokers/db/testing/broker.ts';
import { archiveNow, findCopy, startScratch } from '../../../e2e/restore/capsule/copies.ts';
import { load, openAll } from '../../../e2e/restore/capsule/load.ts';
import { databasesOf } from '../../../e2e/restore/capsule/queries.ts';
import { outputOf } from '../../../e2e/restore/place.ts';
import type { Buckets } from './buckets.ts';
import type { BackedUpServer } from './server.ts';
import { digestOfRows, prefixOf, type Tenant } from './tenants.ts';

const ATTIC = 'attic';
const SCRATCH_DATA = '/var/lib/postgresql/data/17.restored';

export interface OneCapsule {
  /** The time until a temporary server has the former data. */
  readonly scratch: number;
  readonly all: number;
  /** Databases whose rows differ from before, and missing objects. */
  readonly lost: readonly string[];
}

/** Restores it under another name; returns seconds. */
export async function restoreOne(
  { places, kubectl }: BackedUpServer,
  buckets: Buckets,
  broker: TestBroker,
  moment: Date,
  { tenants, rows }: { readonly tenants: readonly Tenant[]; readonly rows: ReadonlyMap<string, string> },
): Promise<OneCapsule> {
  const [{ capsule } = { capsule: '' }] = tenants;
  const mine = tenants.filter((one) => one.capsule === capsule);
  const [at, signal] = [moment.toISOString(), new AbortController().signal];
  const started = performance.now();
  const since = () => (performance.now() - started) / 1_000;
  const [copy] = await Promise.all([findCopy(places, at, capsule), archiveNow(places.server, signal)]);
  await startScratch(places.scratch, at, copy);
  const scratch = since();
  try {
    const databases = await databasesOf(places.scratch, capsule);
    await openAll(
      places.scratch,
      databases.map(({ name }) => name),
    );
    const attic = await furnished(broker, mine);
    const moves = ['--prefix', prefixOf(capsule), '--to', prefixOf(ATTIC)];
    const [brought] = await Promise.all([
      buckets.backup('restore', '--at', at, ...moves),
      ...attic.map(async ({ app, url }) => {
        const name = databases.find((one) => one.app === app)?.name ?? '';
        await load(
          kubectl,
          places,
          name,
          { url, ca: undefined, host: '127.0.0.1', address: '127.0.0.1' },
          signal,
        );
      }),
    ]);
    const all = since();
    const now = await digestOfRows(attic);
    const others = attic.filter(({ app }) => now.get(`${ATTIC}/${app}`) !== rows.get(`${capsule}/${app}`));
    const lost = others.map(({ app }) => `${ATTIC}/${app}`);
    return { scratch, all, lost: brought['objects'] === 0 ? [...lost, `objects of ${ATTIC}`] : lost };
  } finally {
    await outputOf(places.scratch, ['pg_ctl', '-D', SCRATCH_DATA, '-m', 'immediate', 'stop']);
  }
}

async function furnished(broker: TestBroker, mine: readonly Tenant[]): Promise<readonly Tenant[]> {
  const caller = await broker.capsule(ATTIC);
  const attic: Tenant[] = [];
  for (const { app } of mine) {
    const made = await caller.create(ATTIC, app);
    if (made.status !== 200) throw new Error(`${ATTIC}/${app}: ${made.text}`);
    attic.push({ capsule: ATTIC, app, url: made.json.database_url });
  }
  return attic;
}
