import { createHash } from 'node:crypto';
import { z } from 'zod';
import { bringBack, stateName } from './bring-back.ts';
import { filtered } from './choose.ts';
import type { Entry } from './entry.ts';
import { BackupError } from './errors.ts';
import { NameTable } from './name-table.ts';
import { listed } from './pieces.ts';
import { type Plan, planOf } from './plan.ts';
import { abortRecorded } from './recorded-upload.ts';
import { type RestoreReport, requireContents } from './restore.ts';
import { isAbsent, retrying } from './retrying.ts';
import { COMPLETIONS, MARKERS, type Run } from './run.ts';

/** Objects under the prefix `from` are restored under the prefix `to`. */
export interface Move {
  readonly from: string;
  readonly to: string;
}

/** What a restore began with, and its result when it has ended. */
const begunSchema = z.object({
  format: z.number(),
  space: z.string(),
  at: z.string().nullable(),
  before: z.string().nullable(),
  after: z.string().nullable(),
  newest: z.string(),
  moves: z.array(z.object({ from: z.string(), to: z.string() })),
  done: z.object({ objects: z.number(), bytes: z.number() }).optional(),
});

type Begun = z.infer<typeof begunSchema>;

interface Destination {
  /** The key of the object that records whether a restore into these prefixes is running or done. */
  readonly marker: string;
  readonly begun: Begun | undefined;
  /** The objects that the prefixes have, by `stateName`. */
  readonly there: NameTable;
}

/**
 * Restores objects under other prefixes of a bucket that is in use. These prefixes must be empty. An interrupted
 * restore continues when it is started again; a completed one is not repeated, whatever has become of its objects.
 */
export async function restoreInto(
  run: Run,
  at: Date | undefined,
  moves: readonly Move[],
): Promise<RestoreReport> {
  const { bucket, clock, signal } = run;
  const again = <T>(act: () => Promise<T>) => retrying(clock, signal, act);
  const started = clock.now();
  const seconds = () => (clock.now().getTime() - started.getTime()) / 1_000;
  const { marker, begun, there } = await again(() => destinationOf(run, at, moves));
  if (begun?.done !== undefined) {
    const { done, moves: _, ...source } = begun;
    return { ...source, ...done, skipped: done.objects, seconds: seconds() };
  }
  const plan = moved(await planOf(run, at, begun), moves);
  const done = await requireContents(run, plan);
  const tell = (more: Pick<Begun, 'done'>) => {
    const body = Buffer.from(`${JSON.stringify({ ...plan.source, moves, ...more })}\n`);
    return again(() => bucket.put(marker, body, { headers: { 'content-type': 'application/json' }, signal }));
  };
  if (begun === undefined) await tell({});
  const records = `${COMPLETIONS}into/${nameOf(moves)}/`;
  const skipped = await bringBack(run, plan, {
    there,
    keyOf: (entry) => newKey(entry, moves) ?? entry.key,
    records,
    otherwise: `empty what it filled, remove ${marker} and take another time; or keep what is there`,
  });
  await abortRecorded({ s3: bucket, clock, signal }, records);
  await tell({ done });
  const notice = plan.notice === undefined ? {} : { notice: plan.notice };
  return { ...plan.source, ...done, skipped, seconds: seconds(), ...notice };
}

const nameOf = (moves: readonly Move[]) => createHash('sha256').update(JSON.stringify(moves)).digest('hex');

const moved = (plan: Plan, moves: readonly Move[]): Plan => ({
  ...plan,
  anchors: () => filtered(plan.anchors(), (entry) => newKey(entry, moves) !== undefined),
  others: () => filtered(plan.others(), (entry) => newKey(entry, moves) !== undefined),
});

function newKey({ key }: Pick<Entry, 'key'>, moves: readonly Move[]): string | undefined {
  const move = moves.find(({ from }) => key.startsWith(from));
  return move && move.to + key.slice(move.from.length);
}

/** @throws BackupError unless the prefixes are empty or were partly filled by this very restore */
async function destinationOf(run: Run, at: Date | undefined, moves: readonly Move[]): Promise<Destination> {
  const { bucket, vault } = run;
  const marker = `${MARKERS}into/${nameOf(moves)}`;
  const begun = await beginning(run, marker);
  if (begun !== undefined && begun.at !== (at?.toISOString() ?? null))
    throw new BackupError(
      `a restore to ${begun.at ?? 'the newest point'} into these prefixes was ${begun.done === undefined ? 'begun' : 'done'}: give that time again, or empty them and remove ${marker}`,
    );
  const there = new NameTable();
  let first: string | undefined;
  for (const { to } of moves)
    for await (const object of listed({ ...run, s3: bucket }, to)) {
      first ??= object.key;
      there.set(stateName(vault, object), 0);
    }
  if (begun === undefined && first !== undefined)
    throw new BackupError(
      `the bucket has ${there.size} objects where these are to be restored, ${first} among them: what is there is not written over`,
    );
  return { marker, begun, there };
}

async function beginning({ bucket, signal }: Run, marker: string): Promise<Begun | undefined> {
  try {
    const { body } = await bucket.read(marker, 1024 * 1024, { signal });
    return begunSchema.parse(JSON.parse(body.toString()));
  } catch (error) {
    if (isAbsent(error)) return undefined;
    if (error instanceof SyntaxError || error instanceof z.ZodError)
      throw new BackupError(`${marker} cannot be read: empty the prefixes that it is of, and remove it`, {
        cause: error,
      });
    throw error;
  }
}
