import { type Contents, copyObject, stateOf } from './copy-object.ts';
import { type Entry, FORMAT, isSameState, type ObjectState } from './entry.ts';
import { BackupError } from './errors.ts';
import { pointName } from './point-names.ts';
import { readHeader, readPoint, writePoint } from './points.ts';
import { isAbsent, retrying } from './retrying.ts';
import { MARKER, MARKERS, type Run } from './run.ts';
import { several } from './several.ts';
import { listed } from './vault.ts';

export interface CopyReport {
  readonly point: string;
  readonly objects: number;
  readonly bytes: number;
  /** The number of objects whose bytes were copied by this run. */
  readonly copied: number;
  readonly copied_bytes: number;
  /** The number of objects that were deleted during the run, or whose state no answer said. */
  readonly left_out: number;
  readonly seconds: number;
}

/** Creates a point of the bucket's present state; only contents that no earlier run has copied are copied. */
export async function copy(run: Run): Promise<CopyReport> {
  const { space, bucket, vault, clock, signal } = run;
  const again = <T>(act: () => Promise<T>) => retrying(clock, signal, act);
  const started = clock.now();
  await again(() => requireNoRestore(run));
  const known = await knownEntries(run, pointName(started));
  const contents: Contents = await again(() => vault.contents(signal));
  const objects = await again(() => Array.fromAsync(listed(bucket, '', signal), stateOf));
  const states = objects.filter(({ key }) => !key.startsWith(MARKERS));

  const found: (Entry | undefined)[] = new Array(states.length);
  let copied = 0;
  let copiedBytes = 0;
  await several(states.entries(), run.atOnce, signal, async ([i, state], either) => {
    const earlier = known.get(state.key);
    if (earlier !== undefined && isKept(earlier, state, contents)) {
      found[i] = earlier;
      return;
    }
    const result = await retrying(clock, either, () =>
      copyObject({ ...run, signal: either }, contents, state),
    );
    found[i] = result?.entry;
    if (result?.isNew !== true) return;
    copied += 1;
    copiedBytes += result.entry.size;
  });

  const entries = found.filter((entry) => entry !== undefined);
  await again(() => requireContents(run, entries));
  const finished = clock.now();
  const bytes = entries.reduce((sum, { size }) => sum + size, 0);
  const header = {
    format: FORMAT,
    space,
    started: started.toISOString(),
    finished: finished.toISOString(),
    objects: entries.length,
    bytes,
  } as const;
  const point = await again(() => writePoint(vault, header, entries, signal));
  return {
    point,
    objects: entries.length,
    bytes,
    copied,
    copied_bytes: copiedBytes,
    left_out: states.length - entries.length,
    seconds: (clock.now().getTime() - started.getTime()) / 1_000,
  };
}

function isKept(earlier: Entry, state: ObjectState, contents: Contents): boolean {
  return isSameState(earlier, state) && contents.get(earlier.content)?.size === earlier.stored;
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

/**
 * The newest point's entries by key, so that unchanged objects are not read again. Rejects, before anything is written,
 * if that point is another Space's or has another identity; if it is damaged, every object is read again.
 */
async function knownEntries(run: Run, name: string): Promise<Map<string, Entry>> {
  const { space, vault, clock, signal } = run;
  const again = <T>(act: () => Promise<T>) => retrying(clock, signal, act);
  const newest = (await again(() => vault.points(signal))).at(-1);
  if (newest === undefined) return new Map();
  await again(() => readHeader(vault, newest, space, signal));
  if (newest >= name)
    throw new BackupError(
      `the backup has a point ${newest} and it is ${name} here: set the clock, or remove that point where its clock was wrong`,
    );
  try {
    const entries = await again(() => readPoint(vault, newest, space, signal));
    return new Map(entries.map((entry) => [entry.key, entry]));
  } catch (error) {
    if (error instanceof BackupError) return new Map();
    throw error;
  }
}

/** Checks that another program has not removed contents meanwhile that this run uses. */
async function requireContents({ vault, signal }: Run, entries: readonly Entry[]): Promise<void> {
  const there = await vault.contents(signal);
  const missing = entries.filter(({ content, stored }) => there.get(content)?.size !== stored).length;
  if (missing > 0)
    throw new BackupError(
      `${missing} contents of this run are no longer in the backup's bucket: let nothing else remove objects there, and copy again`,
    );
}
