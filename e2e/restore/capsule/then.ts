/** What there was at a moment, and all that a restore can be refused for. */
import { type Place, told } from '../place.ts';
import { RestoreProblem } from '../problem.ts';
import { type Known, openState, type State } from '../state.ts';
import { databasesOf, filesOf, othersDatabases } from './asking.ts';
import { archiveNow, startScratch } from './copies.ts';
import { refuseOccupied } from './living.ts';
import { openAll } from './load.ts';
import { type CapsuleRestore, namespacesOf, type Places, type Then } from './model.ts';
import { renamed, tenantIn } from './tenant.ts';

/** Everything that can be refused is, before anything of the Space is changed. */
export async function reachThen(
  about: CapsuleRestore,
  known: Known,
  places: Places,
  isBegun: boolean,
): Promise<Then> {
  const { kube, capsule, as, at, steps, signal } = about;
  const state = await steps.run('open the state', () => fetchState(about, places.objects, known));
  const found = tenantIn(state, capsule);
  const tenant = as === capsule ? found : renamed(found, as);
  await refuseOccupied(kube, namespacesOf(about), tenant, isBegun);
  await requirePoints(places.objects);
  await steps.run('archive the log', () => archiveNow(places.server, signal));
  const reached = await steps.run('have a copy go through the log', async () =>
    startScratch(places.scratch, at, await othersDatabases(places.server, capsule)),
  );
  const databases = await databasesOf(places.scratch, capsule);
  const files = await filesOf(places.scratch, capsule);
  await openAll(
    places.scratch,
    databases.map(({ name }) => name),
  );
  return { tenant, taken: state.taken, reached, databases, files };
}

async function fetchState(
  { space, namespace, identities, at }: CapsuleRestore,
  objects: Place,
  known: Known,
): Promise<State> {
  const moment = at === undefined ? [] : ['--at', at];
  const sealed = await told(objects, ['node', '/app/backup.mjs', 'state', ...moment]);
  const state = await openState(Buffer.from(sealed, 'base64'), identities, known);
  if (state.space !== space || state.namespaces.release !== namespace)
    throw new RestoreProblem(
      `the backup is of the Space ${state.space} in the namespace ${state.namespaces.release}: name it with --space and --namespace`,
    );
  return state;
}

async function requirePoints(objects: Place): Promise<void> {
  if ((await told(objects, ['node', '/app/backup.mjs', 'list'])).trim() === '')
    throw new RestoreProblem(
      'the backup has no copy of the bucket yet: look at the Jobs of backup. Nothing was changed',
    );
}
