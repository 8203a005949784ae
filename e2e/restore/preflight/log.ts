/** Checks whether the copies of the database, and the log that follows them, are complete up to a moment. */
import { brokenOf, type Copy, copiesIn, copyFor, repository, UNCHANGED } from '../copies.ts';
import type { Place } from '../place.ts';
import { RestoreProblem } from '../problem.ts';

interface Listed {
  readonly type: string;
  readonly size?: number;
  /** Seconds since 1970. */
  readonly time?: number;
}
type Files = Readonly<Record<string, Listed>>;

/** A file of the log: its path, its position in the order on any timeline, and when it was archived. */
export interface Segment {
  readonly path: string;
  readonly number: number;
  /** Milliseconds since 1970. */
  readonly put: number;
}

const SEGMENT = /^(?:.*\/)?[0-9A-F]{8}([0-9A-F]{8})([0-9A-F]{8})-[0-9a-f]{40}[^/]*$/;
/** The server's segments have 16 MiB each. */
const SEGMENTS_PER_LOG = 256;
/** How far the clocks of the S3 server and of the database may differ. */
const APART_MS = 60_000;

const numbered = (log: string, segment: string) =>
  Number.parseInt(log, 16) * SEGMENTS_PER_LOG + Number.parseInt(segment, 16);
const numberOf = (name: string) => numbered(name.slice(8, 16), name.slice(16, 24));

export const segmentsIn = (files: Files): readonly Segment[] =>
  Object.entries(files).flatMap(([path, { time = 0 }]) => {
    const [, log, segment] = SEGMENT.exec(path) ?? [];
    return log === undefined || segment === undefined
      ? []
      : [{ path, number: numbered(log, segment), put: time * 1_000 }];
  });

/** The files that follow a copy without a gap, the newest first. */
export function following(all: readonly Segment[], copy: Pick<Copy, 'archive'>): readonly Segment[] {
  const found = new Map<number, Segment[]>();
  for (const one of all) found.set(one.number, [...(found.get(one.number) ?? []), one]);
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
 * transaction after the moment, since only by that does a recovering server know that it has reached it. @throws
 * RestoreProblem if the database cannot be restored to that moment, which may be the end
 */
export async function requireDatabase(place: Place, at: string | undefined): Promise<void> {
  const { all, archiveOf } = await copiesIn(place);
  const copy = copyFor(all, at);
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
  const log = following(segmentsIn(await filesIn(place, archive)), copy);
  const [last] = log;
  if (last === undefined || last.number < numberOf(copy.archive.stop))
    throw new RestoreProblem(
      `the backup lacks a part of the log that the copy ${copy.label} of the database needs. ${earlierThan(copy)}`,
    );
  const needed = log.filter(({ number }) => number <= numberOf(copy.archive.stop));
  const [broken] = await brokenOf(
    place,
    needed.map(({ path }) => `${archive}/${path}`),
  );
  if (broken !== undefined) throw damaged(broken.slice(archive.length + 1), earlierThan(copy));
  if (at !== undefined) await requireReach(place, archive, log, at);
}

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
