import { DamagedPointError } from './errors.ts';
import { startedOf } from './point-names.ts';
import { readHeader, visitEntries } from './points.ts';
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

/**
 * Removes old points except the one that the oldest kept moments need, and contents that no point refers to and no running
 * backup is about to use.
 */
export async function expire(run: Run, keepDays: number): Promise<ExpireReport> {
  const { space, vault, clock, signal } = run;
  const again = <T>(act: () => Promise<T>) => retrying(clock, signal, act);
  const now = clock.now().getTime();
  // Contents are listed first: a point that is written later refers only to new ones or to ones that are in use
  // already.
  const contents = await again(() => vault.contents(signal));
  const points = await again(() => vault.points(signal));
  const since = now - keepDays * DAY_MS;
  const isOld = (name: string) => (startedOf(name)?.getTime() ?? now) < since;
  const needed = await lastBefore(run, points.filter(isOld), since);
  const old = points.slice(0, -LEAST_POINTS).filter((name) => isOld(name) && name !== needed);

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

/** The last of these points that finished before a time, which a restore to a moment soon after that time begins with. */
async function lastBefore(run: Run, names: readonly string[], time: number): Promise<string | undefined> {
  const { space, vault, clock, signal } = run;
  for (const name of names.toReversed())
    try {
      const { header } = await retrying(clock, signal, () => readHeader(vault, name, space, signal));
      if (Date.parse(header.finished) < time) return name;
    } catch (error) {
      // A restore leaves a damaged point aside, and takes the one before it.
      if (!(error instanceof DamagedPointError)) throw error;
    }
  return undefined;
}
