/** Fills the new databases and files of a Capsule with the data of that moment. */
import { outputOf } from '../place.ts';
import { RestoreProblem } from '../problem.ts';
import { load } from './load.ts';
import type { CapsuleRestore, PastCapsule, Places } from './model.ts';
import type { NewResources } from './resources.ts';
import { idOf } from './tenant.ts';

const LOADS = 4;

async function atOnce<T>(all: readonly T[], act: (one: T) => Promise<void>): Promise<void> {
  const left = all.values();
  const work = async () => {
    for (const one of left) await act(one);
  };
  await Promise.all(Array.from({ length: LOADS }, work));
}

interface Filled {
  readonly loaded: number;
  readonly objects: (object & { readonly notice?: string }) | undefined;
}

export async function fillPlaces(
  about: CapsuleRestore,
  places: Places,
  then: PastCapsule,
  made: NewResources,
): Promise<Filled> {
  const { steps, kubectl, signal } = about;
  const filled = await Promise.all([
    steps.run('restore its databases', async (step) => {
      const wanted = then.databases.filter(({ app }) => made.databases.has(app));
      await atOnce(wanted, async ({ app, name }) => {
        const access = made.databases.get(app);
        const bytes = access && (await load(kubectl, places, name, access, signal));
        step.note(`${app} ${bytes === undefined ? 'was restored before' : `${bytes} bytes`}`);
      });
      return wanted.length;
    }),
    steps.run('restore its objects', () => bringObjects(about, places, then, made)),
  ]);
  return { loaded: filled[0], objects: filled[1] };
}

async function bringObjects(
  { kube, space, as, at }: CapsuleRestore,
  { objects }: Places,
  { files, tenant }: PastCapsule,
  made: NewResources,
): Promise<Filled['objects']> {
  if (files === undefined) return undefined;
  const moves = [
    [`${files.place}s/`, `${made.files.place}s/`],
    ...tenant.assistants.map(idOf).map((id) => [files.apps[id], made.files.apps[id]]),
  ].flatMap(([from, to]) => (from === undefined || to === undefined ? [] : ['--prefix', from, '--to', to]));
  const moment = at === undefined ? [] : ['--at', at];
  const report = JSON.parse(
    await outputOf(objects, ['node', '/app/backup.mjs', 'restore', ...moment, ...moves]),
  );
  const broker: readonly string[] = ['exec', '-n', `${space}-services`, 'deploy/objectstore-broker', '--'];
  const { code, stderr } = await kube.run([...broker, 'node', '/app/admin.mjs', 'recount', as]);
  if (code !== 0)
    throw new RestoreProblem(
      `its objects are restored, but could not be counted for its quota: ${stderr.trim()}`,
    );
  const { command, format, space: _, ...rest } = report;
  return rest;
}
