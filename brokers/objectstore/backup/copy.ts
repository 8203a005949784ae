import { copier, listedObjects, type Outcome } from './copy-listed.ts';
import { ABSENT, type Contents } from './copy-object.ts';
import { followed } from './earlier.ts';
import { type Entry, FORMAT } from './entry.ts';
import { BackupError, DamagedPointError } from './errors.ts';
import { inOrder } from './in-order.ts';
import { type Inventory, takeInventory } from './inventory.ts';
import { Losses, requireNoLoss } from './losses.ts';
import { NameTable } from './name-table.ts';
import { pointName } from './point-names.ts';
import { entriesOf, readHeader, writePoint } from './points.ts';
import { isAbsent, retrying } from './retrying.ts';
import { MARKER, type Run } from './run.ts';

export interface CopyReport {
  readonly point: string;
  readonly objects: number;
  readonly bytes: number;
  /** The number of objects whose bytes were copied by this run. */
  readonly copied: number;
  readonly copied_bytes: number;
  /** The number of objects that are not in the point: they were deleted during the run, or are unreadable and in no earlier one. */
  readonly left_out: number;
  /** The number of objects that the bucket's server did not return; they are in the point as an earlier one has them. */
  readonly unreadable: number;
  /** One of them. */
  readonly unreadable_key?: string;
  /** The number of prefixes under which objects were written faster than they could be listed; the point lacks some of theirs. */
  readonly unlisted: number;
  /** One of them. */
  readonly unlisted_prefix?: string;
  readonly seconds: number;
}

interface CopyOptions {
  /** Called when the newest point allows a copy, before anything is written. */
  readonly begin?: () => Promise<void>;
  /** The name of the newest point, if the bucket may have lost what that has. */
  readonly acceptedLoss?: string | undefined;
}

/**
 * Entries that may wait in memory while an earlier object is copied. Then nothing else is, so a Capsule with a large object after each
 * so many small ones would have its bytes go through one stream. With the longest key and headers an entry has 5 KiB, so all have 50 MiB.
 */
const AHEAD = 10_000;

/**
 * Creates a point of the bucket's present state; only contents that no earlier run has copied are copied. Of each object only some
 * bytes are held in memory, those of its content's name: everything else passes through in the order of the inventory.
 */
export async function copy(run: Run, { begin, acceptedLoss }: CopyOptions = {}): Promise<CopyReport> {
  const { vault, clock, signal, atOnce } = run;
  const started = clock.now();
  const point = pointName(started);
  await retrying(clock, signal, () => requireNoRestore(run));
  const newest = await newestBefore(run, point);
  await begin?.();
  const inventory = await takeInventory(run, point);
  try {
    const losses = new Losses();
    const earlier = followed(losses.reading(newest?.entries() ?? none()));
    const contents = await contentsFor(run, newest);
    const tally = new Tally(inventory);
    async function* entries(): AsyncGenerator<Entry> {
      const limits = { atOnce, ahead: AHEAD, signal };
      const objects = losses.listing(listedObjects(inventory, earlier));
      for await (const outcome of inOrder(objects, limits, copier(run, contents))) {
        tally.count(outcome);
        if (outcome.entry === undefined) continue;
        contents.mark(outcome.entry.content);
        losses.has(outcome.entry);
        yield outcome.entry;
      }
    }
    const finish = async () => {
      await earlier.rest();
      if (newest !== undefined) requireNoLoss(losses, newest.name, acceptedLoss);
      await requireContents(run, contents, tally.objects);
      return {
        format: FORMAT,
        space: run.space,
        started: started.toISOString(),
        finished: clock.now().toISOString(),
        objects: tally.objects,
        bytes: tally.bytes,
      } as const;
    };
    await writePoint(vault, point, entries(), finish, signal).finally(earlier.close);
    return { point, ...tally.report(), seconds: (clock.now().getTime() - started.getTime()) / 1_000 };
  } finally {
    await vault.removeInventory(point);
  }
}

class Tally {
  objects = 0;
  bytes = 0;
  #copied = 0;
  #copiedBytes = 0;
  #leftOut = 0;
  #unreadable = 0;
  #unreadableKey: string | undefined;
  readonly #unlisted: readonly string[];

  constructor({ unlisted }: Pick<Inventory, 'unlisted'>) {
    this.#unlisted = unlisted;
  }

  count({ key, entry, isNew, isUnreadable }: Outcome): void {
    if (isUnreadable) {
      this.#unreadable += 1;
      this.#unreadableKey ??= key;
    }
    if (entry === undefined) {
      this.#leftOut += 1;
      return;
    }
    this.objects += 1;
    this.bytes += entry.size;
    if (!isNew) return;
    this.#copied += 1;
    this.#copiedBytes += entry.size;
  }

  report(): Omit<CopyReport, 'point' | 'seconds'> {
    const [unlisted] = this.#unlisted;
    return {
      objects: this.objects,
      bytes: this.bytes,
      copied: this.#copied,
      copied_bytes: this.#copiedBytes,
      left_out: this.#leftOut,
      unreadable: this.#unreadable,
      ...(this.#unreadableKey === undefined ? {} : { unreadable_key: this.#unreadableKey }),
      unlisted: this.#unlisted.length,
      ...(unlisted === undefined ? {} : { unlisted_prefix: unlisted }),
    };
  }
}

/** Refuses to run during a restore, since a point of a half restored bucket would look complete. */
async function requireNoRestore({ bucket, signal }: Run): Promise<void> {
  try {
    await bucket.head(MARKER, { signal });
  } catch (error) {
    if (isAbsent(error)) return;
    throw error;
  }
  throw new BackupError(
    `a restore of this bucket was cut short (${MARKER} is there): give the same restore again before anything is copied`,
  );
}

interface Newest {
  readonly name: string;
  readonly started: Date;
  /** Reads them from the beginning. */
  readonly entries: () => AsyncIterable<Entry>;
}

/**
 * The newest point's entries, so that unchanged objects are not read again. Rejects, before anything is written, if that point is
 * another Space's or has another identity.
 */
async function newestBefore(run: Run, name: string): Promise<Newest | undefined> {
  const { space, vault, signal } = run;
  const newest = (await vault.points(signal)).at(-1);
  if (newest === undefined) return undefined;
  const { header } = await readHeader(vault, newest, space, signal);
  if (newest >= name)
    throw new BackupError(
      `the backup has a point ${newest} and it is ${name} here: set the clock, or remove that point where its clock was wrong`,
    );
  return {
    name: newest,
    started: new Date(header.started),
    entries: () => entriesOf(vault, newest, space, signal),
  };
}

/** How far the clocks of runs and of the destination may differ. */
const APART_MS = 86_400_000;

/**
 * The contents that the newest point names, and those that were stored since it, by a run that was killed. There may be any number
 * of others, which only older points name: a Capsule leaves one for each state in which a run has found an object.
 */
async function contentsFor({ vault, signal }: Run, newest: Newest | undefined): Promise<Contents> {
  const contents = new NameTable();
  const since = newest === undefined ? Number.NEGATIVE_INFINITY : newest.started.getTime() - APART_MS;
  try {
    for await (const { content } of newest?.entries() ?? none()) contents.set(content, ABSENT);
  } catch (error) {
    // The objects of which it does not say anything are looked at again.
    if (!(error instanceof DamagedPointError)) throw error;
  }
  for await (const { name, size, modified } of vault.contents(signal))
    if (contents.has(name) || Date.parse(modified) >= since) contents.set(name, size);
  return contents;
}

async function* none(): AsyncGenerator<Entry> {}

/** Checks that another program has not removed contents meanwhile that this run uses, which are the marked ones. */
async function requireContents({ vault, signal }: Run, contents: Contents, used: number): Promise<void> {
  let there = 0;
  for await (const { name, size } of vault.contents(signal))
    if (contents.get(name) === size && contents.unmark(name)) there += 1;
  if (there < used)
    throw new BackupError(
      `${used - there} contents of this run are no longer in the backup's bucket: let nothing else remove objects there, and copy again`,
    );
}
