/** Checks whether the copies of the database, and the log that follows them, are complete up to a moment. */
import {
  brokenOf,
  type Copy,
  copiesIn,
  copyFor,
  repository,
  type Stretch,
  UNCHANGED,
  wayTo,
} from '../copies.ts';
import type { Place } from '../place.ts';
import { RestoreProblem } from '../problem.ts';

interface Listed {
  readonly type: string;
  readonly size?: number;
  /** Seconds since 1970. */
  readonly time?: number;
}
type Files = Readonly<Record<string, Listed>>;

/** A file of the log: its path, its timeline, its position in the order on any timeline, and when it was archived. */
export interface Segment {
  readonly path: string;
  readonly timeline: number;
  readonly number: number;
  /** Milliseconds since 1970. */
  readonly put: number;
}

const SEGMENT = /^(?:.*\/)?([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})-[0-9a-f]{40}[^/]*$/;
/** The server's segments have 16 MiB each. */
const SEGMENTS_PER_LOG = 256;
/** How far the clocks of the S3 server and of the database may differ. */
const APART_MS = 60_000;

const numbered = (log: string, segment: string) =>
  Number.parseInt(log, 16) * SEGMENTS_PER_LOG + Number.parseInt(segment, 16);
const numberOf = (name: string) => numbered(name.slice(8, 16), name.slice(16, 24));

export const segmentsIn = (files: Files): readonly Segment[] =>
  Object.entries(files).flatMap(([path, { time = 0 }]) => {
    const [, timeline, log, segment] = SEGMENT.exec(path) ?? [];
    if (timeline === undefined || log === undefined || segment === undefined) return [];
    return [
      { path, timeline: Number.parseInt(timeline, 16), number: numbered(log, segment), put: time * 1_000 },
    ];
  });

/** The files on a restore's way. What a timeline has beyond the point where the next one left it is not on the way. */
export const onWay = (all: readonly Segment[], stretches: readonly Stretch[]): readonly Segment[] =>
  all.filter(
    ({ timeline, number }) => stretches.findLast(({ first }) => first <= number)?.timeline === timeline,
  );

/** The files on the way that follow a copy without a gap, the newest first. */
export function following(way: readonly Segment[], copy: Pick<Copy, 'archive'>): readonly Segment[] {
  const found = new Map<number, Segment[]>();
  for (const one of way) found.set(one.number, [...(found.get(one.number) ?? []), one]);
  const run: Segment[] = [];
  for (let number = numberOf(copy.archive.start); ; number += 1) {
    const there = found.get(number);
    if (there === undefined) return run.reverse();
    run.push(...there);
  }
}

const bytesOf = (files: Files) =>
  Object.entries(files).reduce(
    (sum, [path, { size = 0 }]) => (path.startsWith('backup.manifest') ? sum : sum + size),
    0,
  );

async function filesIn(place: Place, path: string): Promise<Files> {
  return JSON.parse(await repository(place, 'files', path));
}

/**
 * Checks the lengths of all files that a copy consists of, each file of the log that follows it, and that there is a
 * transaction after the moment, since only by that does a recovering server know that it has reached it. To the end,
 * no file may be missing. @throws
 * RestoreProblem if the database cannot be restored to that moment, which may be the end
 */
export async function requireDatabase(place: Place, at: string | undefined): Promise<void> {
  const { all, archiveOf } = await copiesIn(place);
  copyFor(all, at); // refuses a moment before the first copy
  const { label: chosen, stretches } = await wayTo(place, at);
  const copy = all.find(({ label }) => label === chosen) ?? copyFor(all, at);
  // This reads what the copy records about itself.
  await copiesIn(place, copy.label);
  for (const label of [copy.label, ...(copy.reference ?? [])]) {
    const wanted = all.find((one) => one.label === label)?.info.repository.delta;
    const found = bytesOf(await filesIn(place, `backup/space/${label}`));
    if (wanted === undefined || found < wanted)
      throw new RestoreProblem(
        `the copy ${copy.label} of the database is incomplete: the backup has ${found} of ${wanted ?? 'no'} bytes of ${label}. ${earlierThan(copy)}`,
      );
  }
  const archive = `archive/space/${archiveOf(copy)}`;
  const { way, log, last } = await logAfter(place, archive, copy, stretches);
  const needed = log.filter(({ number }) => number <= numberOf(copy.archive.stop));
  const [broken] = await brokenOf(
    place,
    needed.map(({ path }) => `${archive}/${path}`),
  );
  if (broken !== undefined) throw damaged(broken.slice(archive.length + 1), earlierThan(copy));
  if (at !== undefined) return requireReach(place, archive, log, at);
  if (way.some(({ number }) => number > last.number)) throw await gapAfter(place, archive, copy, log);
}

/**
 * Checks that no file of the log is missing between the newest copy and `end`, which the server says it has archived: it says
 * so, too, of files that it has dropped. @throws RestoreProblem
 */
export async function requireWhole(place: Place, end: string): Promise<void> {
  const { all, archiveOf } = await copiesIn(place);
  const newest = copyFor(all, undefined);
  const { label: chosen, stretches } = await wayTo(place, undefined);
  const copy = all.find(({ label }) => label === chosen) ?? newest;
  const archive = `archive/space/${archiveOf(copy)}`;
  const { log, last } = await logAfter(place, archive, copy, stretches);
  if (last.number < numberOf(end)) throw await gapAfter(place, archive, copy, log);
}

/** The files on a restore's way, and those that follow the copy without a gap. @throws RestoreProblem if it needs more */
async function logAfter(place: Place, archive: string, copy: Copy, stretches: readonly Stretch[]) {
  const way = onWay(segmentsIn(await filesIn(place, archive)), stretches);
  const log = following(way, copy);
  const [last] = log;
  if (last === undefined || last.number < numberOf(copy.archive.stop))
    throw new RestoreProblem(
      `the backup lacks a part of the log that the copy ${copy.label} of the database needs. ${earlierThan(copy)}`,
    );
  return { way, log, last };
}

/** A server that recovers takes the first missing file for the end of the log, and reports nothing. */
async function gapAfter(
  place: Place,
  archive: string,
  copy: Copy,
  log: readonly Segment[],
): Promise<RestoreProblem> {
  let until: Date | undefined;
  for (const one of log) {
    until = await committed(place, archive, one, `Give an earlier time, with --at. ${UNCHANGED}`);
    if (until !== undefined) break;
  }
  const [last] = log;
  return new RestoreProblem(
    `the backup lacks the file ${last === undefined ? '' : nameAfter(last)} of the log, and the server has written later ones, so a restore to the end would leave out what was written after that gap. Give a time before ${until?.toISOString() ?? `the copy ${copy.label} of the database`}, with --at, to restore what is before it. ${UNCHANGED}`,
  );
}

const hex = (value: number) => value.toString(16).toUpperCase().padStart(8, '0');
const nameAfter = ({ timeline, number }: Segment) =>
  `${hex(timeline)}${hex(Math.floor((number + 1) / SEGMENTS_PER_LOG))}${hex((number + 1) % SEGMENTS_PER_LOG)}`;

/** The time of the file's last transaction, if it has one. @throws RestoreProblem if the file is incomplete */
async function committed(
  place: Place,
  archive: string,
  { path }: Segment,
  otherwise: string,
): Promise<Date | undefined> {
  const said = await repository(place, 'committed', `${archive}/${path}`).catch((cause: unknown) => {
    throw damaged(path, otherwise, cause);
  });
  return said.trim() === '' ? undefined : new Date(`${said.trim().replace(' ', 'T')}Z`);
}

const damaged = (path: string, otherwise: string, cause?: unknown) =>
  new RestoreProblem(`the file ${path} of the log is truncated or damaged in the backup. ${otherwise}`, {
    cause,
  });

const earlierThan = ({ timestamp }: Copy) =>
  `Give a time before ${new Date(timestamp.start * 1_000).toISOString()}, with --at, so that an older copy is used. ${UNCHANGED}`;

async function requireReach(
  place: Place,
  archive: string,
  log: readonly Segment[],
  at: string,
): Promise<void> {
  const moment = Date.parse(at);
  let reached: Date | undefined;
  for (const one of log) {
    reached = await committed(place, archive, one, `Give an earlier time, with --at. ${UNCHANGED}`);
    if (reached === undefined && one.put + APART_MS <= moment) reached = new Date(one.put);
    if (reached !== undefined) break;
  }
  if (reached !== undefined && reached.getTime() > moment) return;
  throw new RestoreProblem(
    `the log in the backup contains nothing after ${reached?.toISOString() ?? 'its copy of the database'}, so it does not reach ${at}: give an earlier time, or omit --at to restore up to its end. ${UNCHANGED}`,
  );
}
