import { startedOf } from './point-names.ts';
import { visitEntries } from './points.ts';
import { retrying } from './retrying.ts';
import type { Run } from './run.ts';

export interface ExpireReport {
  readonly points: number;
  readonly contents: number;
  readonly contents_bytes: number;
  readonly uploads: number;
}

const DAY_MS = 86_400_000;
/** This many points are kept whatever their age, so that a Space without a backup for a month can still be restored. */
const LEAST_POINTS = 2;

/** Removes old points, and contents that no point refers to and no running backup is about to use. */
export async function expire(run: Run, keepDays: number): Promise<ExpireReport> {
  const { space, vault, clock, signal } = run;
  const again = <T>(act: () => Promise<T>) => retrying(clock, signal, act);
  const now = clock.now().getTime();
  // Contents are listed first: a point that is written later refers only to new ones or to ones that are in use
  // already.
  const contents = await again(() => vault.contents(signal));
  const points = await again(() => vault.points(signal));
  const isOld = (name: string) => (startedOf(name)?.getTime() ?? now) < now - keepDays * DAY_MS;
  const old = points.slice(0, -LEAST_POINTS).filter(isOld);

  // A point that cannot be read ends the run before anything is removed, since it is unknown which contents it needs.
  const named = new Set<string>();
  for (const name of points.filter((point) => !old.includes(point)))
    await again(() => visitEntries(vault, name, space, signal, ({ content }) => named.add(content)));
  const isOver = (modified: string) => Date.parse(modified) < now - DAY_MS;
  const unnamed = [...contents].filter(([name, { modified }]) => !named.has(name) && isOver(modified));

  await again(() => vault.remove('points', old, signal));
  await again(() =>
    vault.remove(
      'objects',
      unnamed.map(([name]) => name),
      signal,
    ),
  );
  const uploads = await again(() => vault.abandonUploads(new Date(now - DAY_MS), signal));
  return {
    points: old.length,
    contents: unnamed.length,
    contents_bytes: unnamed.reduce((sum, [, { size }]) => sum + size, 0),
    uploads,
  };
}
