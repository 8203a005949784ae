import { DamagedPointError } from './errors.ts';
import { NameTable } from './name-table.ts';
import { startedOf } from './point-names.ts';
import { entriesOf, readHeader } from './points.ts';
import { retrying } from './retrying.ts';
import type { Run } from './run.ts';
import type { Content } from './vault.ts';

export interface ExpireReport {
  readonly points: number;
  readonly contents: number;
  readonly contents_bytes: number;
  readonly uploads: number;
}

const DAY_MS = 86_400_000;
const REMOVED_AT_ONCE = 1_000;
/** This many points are kept whatever their age, so that a Space without a backup for a month can still be restored. */
const LEAST_POINTS = 2;

/**
 * Removes old points except the one that the oldest kept moments need, and contents that no point refers to and no running
 * backup is about to use. All kept points are read for that. After an hourly copy this is too much to do each time, so with
 * `isDaily` it is done when one of the old points is a day older than it has to be.
 */
export async function expire(
  run: Run,
  keepDays: number,
  { isDaily = false }: { readonly isDaily?: boolean } = {},
): Promise<ExpireReport> {
  const { vault, clock, signal } = run;
  const now = clock.now().getTime();
  const points = await vault.points(signal);
  const since = now - keepDays * DAY_MS;
  const isOld = (name: string) => (startedOf(name)?.getTime() ?? now) < since;
  const needed = await lastBefore(run, points.filter(isOld), since);
  const old = points.slice(0, -LEAST_POINTS).filter((name) => isOld(name) && name !== needed);
  const uploads = await retrying(clock, signal, () => vault.abandonUploads(new Date(now - DAY_MS), signal));
  const isDue = old.some((name) => (startedOf(name)?.getTime() ?? now) < since - DAY_MS);
  if (isDaily && !isDue) return { points: 0, contents: 0, contents_bytes: 0, uploads };

  const kept = points.filter((point) => !old.includes(point));
  const named = await contentsNamedBy(run, kept);
  await vault.remove('points', old, signal);
  const removed = await removeContents(run, ({ name, modified }) => {
    // A run that has not ended may name what it has copied.
    const isOver = Date.parse(modified) < now - DAY_MS;
    return isOver && !named.has(name);
  });
  return { points: old.length, ...removed, uploads };
}

/** Rejects if a point cannot be read, before anything is removed, since it is unknown which contents that one needs. */
async function contentsNamedBy({ space, vault, signal }: Run, points: readonly string[]): Promise<NameTable> {
  const named = new NameTable();
  for (const point of points)
    for await (const { content, stored } of entriesOf(vault, point, space, signal))
      named.set(content, stored);
  return named;
}

async function removeContents(
  { vault, signal }: Run,
  isUnneeded: (content: Content) => boolean,
): Promise<Pick<ExpireReport, 'contents' | 'contents_bytes'>> {
  const removed = { contents: 0, contents_bytes: 0 };
  let names: string[] = [];
  const remove = async () => {
    await vault.remove('objects', names, signal);
    names = [];
  };
  for await (const content of vault.contents(signal)) {
    if (!isUnneeded(content)) continue;
    names.push(content.name);
    removed.contents += 1;
    removed.contents_bytes += content.size;
    if (names.length === REMOVED_AT_ONCE) await remove();
  }
  await remove();
  return removed;
}

/** The last of these points that finished before a time, which a restore to a moment soon after that time begins with. */
async function lastBefore(run: Run, names: readonly string[], time: number): Promise<string | undefined> {
  const { space, vault, signal } = run;
  for (const name of names.toReversed())
    try {
      const { header } = await readHeader(vault, name, space, signal);
      if (Date.parse(header.finished) < time) return name;
    } catch (error) {
      // A restore leaves a damaged point aside, and takes the one before it.
      if (!(error instanceof DamagedPointError)) throw error;
    }
  return undefined;
}
