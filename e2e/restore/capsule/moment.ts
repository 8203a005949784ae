/** What existed at a moment, and all reasons to refuse a restore to it. */
import { fetchedState } from '../fetched.ts';
import { outputOf, type Place } from '../place.ts';
import { requireWhole } from '../preflight/log.ts';
import { RestoreProblem } from '../problem.ts';
import type { Known } from '../state.ts';
import { archiveNow, findCopy, startScratch } from './copies.ts';
import { openAll } from './load.ts';
import { type CapsuleRestore, namespacesOf, type PastCapsule, type Places } from './model.ts';
import { refuseOccupied } from './objects.ts';
import { databasesOf, filesOf, serverOf } from './queries.ts';
import { renamed, tenantIn } from './tenant.ts';

/** Makes all checks that can refuse the restore, before anything of the Space is changed. */
export async function reachMoment(
  about: CapsuleRestore,
  known: Known,
  places: Places,
  isBegun: boolean,
): Promise<PastCapsule> {
  const { kube, capsule, as, at, steps } = about;
  // These two wait for different programs.
  const [state, copy] = await Promise.all([
    steps.run('decrypt the state', () => fetchedState(places.objects, about, at, known)),
    steps.run('choose a copy of the database', () => findCopy(places, at, capsule)),
    archiveLog(about, places),
    requirePoints(places.objects),
  ]);
  const found = tenantIn(state, capsule);
  const tenant = as === capsule ? found : renamed(found, as);
  await refuseOccupied(kube, namespacesOf(about), tenant, isBegun);
  const reached = await steps.run('recover a copy of the database to that moment', () =>
    startScratch(places.scratch, at, copy),
  );
  await requireHere(places.scratch, capsule);
  const [databases, files] = await Promise.all([
    databasesOf(places.scratch, capsule),
    filesOf(places.scratch, capsule),
  ]);
  await openAll(
    places.scratch,
    databases.map(({ name }) => name),
  );
  return { tenant, taken: state.taken, reached, databases, files };
}

/** To a moment, the server that recovers reports by itself that the log does not reach it; to the end, it reports nothing. */
async function archiveLog({ at, steps, signal }: CapsuleRestore, places: Places): Promise<void> {
  const end = await steps.run('archive the log', () => archiveNow(places.server, signal));
  if (at === undefined) await steps.run('check the log', () => requireWhole(places.scratch, end));
}

/**
 * The backup contains the databases of one server. @throws RestoreProblem for a Capsule whose databases were on
 * another
 */
export async function requireHere(scratch: Place, capsule: string): Promise<void> {
  const server = await serverOf(scratch, capsule);
  if (server !== 'main')
    throw new RestoreProblem(
      `the databases of Capsule ${capsule} were on the PostgreSQL server ${server} at that moment, and the backup of a Space contains only those of main: restore them from the backup of that server (docs/operations.md, "A server beside main"), or give a moment at which the Capsule was on main, with --at. Nothing was changed`,
    );
}

async function requirePoints(objects: Place): Promise<void> {
  if ((await outputOf(objects, ['node', '/app/backup.mjs', 'list'])).trim() === '')
    throw new RestoreProblem(
      'the backup has no copy of the bucket yet: check the Jobs of CronJob backup. Nothing was changed',
    );
}
