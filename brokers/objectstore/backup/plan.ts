import { type Chosen, chosen, pointsAround } from './choose.ts';
import { type Entry, FORMAT } from './entry.ts';
import { BackupError } from './errors.ts';
import { type DamagedPoint, type ListedPoint, listPoints } from './list.ts';
import { entriesOf } from './points.ts';
import type { Run } from './run.ts';

/** What a restore will write. */
export interface Plan extends Chosen<Entry> {
  readonly source: PlanSource;
  /** What may be missing from the result, if a point could not be read. */
  readonly notice: string | undefined;
}

/** The parameters that identify a restore. */
export interface PlanSource {
  readonly format: number;
  readonly space: string;
  readonly at: string | null;
  readonly before: string | null;
  readonly after: string | null;
  readonly newest: string;
}

/**
 * Decides which objects a restore to a time, or to the newest point, takes from which point. A restore that continues
 * takes them from the points that it began with, whatever newer points exist.
 */
export async function planOf(run: Run, at: Date | undefined, begun?: PlanSource): Promise<Plan> {
  const { points, damaged } = await listPoints(run);
  const newest = points.at(-1);
  const last = damaged.at(-1);
  // An older anchor could be behind the registry, so an unreadable newest point is never ignored silently.
  if (last !== undefined && (newest === undefined || last.name > newest.name)) throw last.error;
  if (newest === undefined)
    throw new BackupError('there is no point in the backup: look at BACKUP_S3_BUCKET and BACKUP_S3_PREFIX');
  const { before, after } =
    begun !== undefined
      ? { before: begunWith(points, begun.before), after: begunWith(points, begun.after) }
      : at === undefined
        ? { before: newest, after: undefined }
        : pointsAround(points, at);
  if (before === undefined && after === undefined)
    throw new BackupError(
      `no point finished before that time or started after it: take a time after ${newest.header.finished}, with --at`,
    );
  const read = readerOf(run);
  const around = { before: before && read(before), after: after && read(after) };
  // Without a time, the newest point is used as a whole.
  const { anchors, others } = chosen(around, read(newest), at ?? newest.finished, run.vault.nameOf);
  const source = {
    format: FORMAT,
    space: run.space,
    at: at?.toISOString() ?? null,
    before: before?.name ?? null,
    after: after?.name ?? null,
    newest: newest.name,
  };
  const notices = [...(at === undefined ? [] : noticesOf(before, after)), ...damaged.map(leftAside)];
  return { anchors, others, source, notice: notices.length === 0 ? undefined : notices.join('; ') };
}

function begunWith(points: readonly ListedPoint[], name: string | null): ListedPoint | undefined {
  const found = points.find((point) => point.name === name);
  if (name !== null && found === undefined)
    throw new BackupError(
      `the restore was begun with the point ${name}, which is not in the backup any more: empty what it filled, and begin anew`,
    );
  return found;
}

function noticesOf(before: ListedPoint | undefined, after: ListedPoint | undefined): string[] {
  if (after === undefined && before !== undefined)
    return [
      `no point started at or after that time: what changed after ${before.header.started} is not in it`,
    ];
  if (before === undefined && after !== undefined)
    return [`no point finished before that time: what changed before ${after.header.finished} is missing`];
  return [];
}

function leftAside({ name }: DamagedPoint): string {
  return `the point ${name} cannot be read and was left aside`;
}

function readerOf({ space, vault, signal }: Run) {
  return ({ name }: ListedPoint) =>
    () =>
      entriesOf(vault, name, space, signal);
}

export async function* entriesIn({ anchors, others }: Chosen<Entry>): AsyncGenerator<Entry> {
  yield* anchors();
  yield* others();
}
