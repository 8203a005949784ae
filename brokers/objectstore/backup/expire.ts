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
/** The most names in memory at a time. */
const MOST_NAMES = 2_000_000;
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
  {
    isDaily = false,
    mostNames = MOST_NAMES,
  }: { readonly isDaily?: boolean; readonly mostNames?: number } = {},
): Promise<ExpireReport> {
  const { vault, clock, signal } = run;
  const now = clock.now().getTime();
  const points = await vault.points(signal);
  const since = now - keepDays * DAY_MS;
  const isOld = (name: string) => (startedOf(name)?.getTime() ?? now) < since;
  const needed = await lastBefore(run, points.filter(isOld), since);
  const old = points.slice(0, -LEAST_POINTS).filter((name) => isOld(name) && name !== needed);
  const uploads = await retrying(clock, signal, () => vault.abandonUploads(new Date(now - DAY_MS), signal));
  await vault.removeInventories(new Date(now - DAY_MS), signal);
  const isDue = old.some((name) => (startedOf(name)?.getTime() ?? now) < since - DAY_MS);
  if (isDaily && !isDue) return { points: 0, contents: 0, contents_bytes: 0, uploads };

  const kept = points.filter((point) => !old.includes(point));
  const removed = { contents: 0, contents_bytes: 0 };
  let arePointsGone = false;
  for await (const { part, named } of namedBy(run, kept, mostNames)) {
    // All kept points have been read now.
    if (!arePointsGone) await vault.remove('points', old, signal);
    arePointsGone = true;
    await removeContents(run, removed, ({ name, modified }) => {
      // A run that has not ended may name what it has copied.
      const isOver = Date.parse(modified) < now - DAY_MS;
      return isOver && isIn(part, name) && !named.has(name);
    });
  }
  return { points: old.length, ...removed, uploads };
}

/** Names by the number that their first digits are: from one on, and below another. */
type Part = readonly [from: number, below: number];
const PART_DIGITS = 6;
const ALL: Part = [0, 16 ** PART_DIGITS];

function isIn([from, below]: Part, name: string): boolean {
  const number = Number.parseInt(name.slice(0, PART_DIGITS), 16);
  return number >= from && number < below;
}

/**
 * The names of contents in points, at most so many at a time: a Capsule leaves one for each state in which a run has found an object.
 * The points are read again for each part. Rejects if one cannot be read, before the first part, since it is unknown which contents
 * that one needs.
 */
async function* namedBy(
  run: Run,
  points: readonly string[],
  mostNames: number,
): AsyncGenerator<{ readonly part: Part; readonly named: NameTable }> {
  const left: Part[] = [ALL];
  for (let part = left.pop(); part !== undefined; part = left.pop()) {
    const named = await namesIn(run, points, part, mostNames);
    const middle = Math.floor((part[0] + part[1]) / 2);
    if (named === undefined) left.push([middle, part[1]], [part[0], middle]);
    else yield { part, named };
  }
}

/** Undefined if there are more than `mostNames`, which a part of one number never is said to have. */
async function namesIn(
  { space, vault, signal }: Run,
  points: readonly string[],
  part: Part,
  mostNames: number,
): Promise<NameTable | undefined> {
  const named = new NameTable();
  const canDivide = part[1] - part[0] > 1;
  for (const point of points)
    for await (const { content, stored } of entriesOf(vault, point, space, signal)) {
      if (!isIn(part, content)) continue;
      if (canDivide && named.size >= mostNames && !named.has(content)) return undefined;
      named.set(content, stored);
    }
  return named;
}

async function removeContents(
  { vault, signal }: Run,
  removed: { contents: number; contents_bytes: number },
  isUnneeded: (content: Content) => boolean,
): Promise<void> {
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
