import { S3Error } from '../upstream/errors.ts';
import type { ListedObject } from '../upstream/types.ts';
import { bringBack } from './bring-back.ts';
import { BackupError } from './errors.ts';
import { type Plan, type PlanSource, planOf } from './plan.ts';
import { isAbsent, retrying } from './retrying.ts';
import { MARKER, type Run } from './run.ts';
import { listed } from './vault.ts';

export interface RestoreReport extends PlanSource {
  readonly objects: number;
  readonly bytes: number;
  /** The number of objects that an earlier, interrupted run of the same restore had written. */
  readonly skipped: number;
  readonly seconds: number;
  readonly notice?: string;
}

export interface RestoreOptions {
  /** The time; undefined for the newest point. */
  readonly at: Date | undefined;
  /** Whether a missing bucket is created. */
  readonly makesBucket: boolean;
}

export type CheckReport = Omit<RestoreReport, 'skipped' | 'seconds'>;

/** Reports what a restore would do. It makes the same checks, and changes nothing. */
export async function check(
  run: Run,
  { withBucket, ...options }: RestoreOptions & { readonly withBucket: boolean },
): Promise<CheckReport> {
  const { plan } = withBucket ? await prepare(run, options) : await planned(run, options.at);
  return reportOf(plan);
}

/** Restores the bucket. All checks are made before anything is changed. */
export async function restore(run: Run, options: RestoreOptions): Promise<RestoreReport> {
  const { bucket, clock, signal } = run;
  const again = <T>(act: () => Promise<T>) => retrying(clock, signal, act);
  const begun = clock.now();
  const { plan, target, marker } = await prepare(run, options);
  if (target === undefined) await again(() => bucket.createBucket({ signal }));
  await again(() => bucket.put(MARKER, marker, { headers: { 'content-type': 'application/json' }, signal }));
  const skipped = await bringBack(run, plan.entries, {
    there: target ?? new Map(),
    keyOf: ({ key }) => key,
    otherwise: `empty the bucket and take another time, or keep what is there and remove ${MARKER}`,
  });
  await again(() => bucket.delete(MARKER, { signal }));
  return { ...reportOf(plan), skipped, seconds: (clock.now().getTime() - begun.getTime()) / 1_000 };
}

const reportOf = ({ source, entries, notice }: Plan): CheckReport => ({
  ...source,
  objects: entries.length,
  bytes: entries.reduce((sum, { size }) => sum + size, 0),
  ...(notice === undefined ? {} : { notice }),
});

/** Plans the restore, reading only the backup. */
async function planned(run: Run, at: Date | undefined) {
  const plan = await planOf(run, at);
  await retrying(run.clock, run.signal, () => requireContents(run, plan));
  return { plan };
}

/** Plans the restore, reading the backup and the bucket. */
async function prepare(run: Run, { at, makesBucket }: RestoreOptions) {
  const again = <T>(act: () => Promise<T>) => retrying(run.clock, run.signal, act);
  const { plan } = await planned(run, at);
  const target = await again(() => targetOf(run, makesBucket));
  const marker = Buffer.from(`${JSON.stringify(plan.source)}\n`);
  await again(() => requireTarget(run, plan, target, marker));
  return { plan, target, marker };
}

type Target = ReadonlyMap<string, ListedObject>;

/** The bucket's objects; undefined if the bucket is to be created. */
async function targetOf({ bucket, signal }: Run, makesBucket: boolean): Promise<Target | undefined> {
  try {
    const all = await Array.fromAsync(listed(bucket, '', signal));
    return new Map(all.map((object) => [object.key, object]));
  } catch (error) {
    if (makesBucket && error instanceof S3Error && error.code === 'NoSuchBucket') return undefined;
    throw error;
  }
}

/** @throws BackupError if the backup lacks a content that the plan needs */
export async function requireContents({ vault, signal }: Run, { entries }: Plan): Promise<void> {
  const contents = await vault.contents(signal);
  const missing = entries.filter(({ content, stored }) => contents.get(content)?.size !== stored);
  const [first] = missing;
  if (first !== undefined)
    throw new BackupError(
      `${missing.length} contents of that time are missing or cut short in the backup, that of ${first.key} among them: take another time, with --at`,
    );
}

/** Whether the bucket already is what the restore would make of it, as after a restore whose end was not reported. */
const isThere = ({ entries }: Plan, target: Target) =>
  target.size === entries.length &&
  entries.every(({ key, size, etag }) => {
    const found = target.get(key);
    return found?.size === size && found.etag === etag;
  });

/** Checks that the bucket is empty, or partly or completely restored by this very restore. */
async function requireTarget(
  run: Run,
  plan: Plan,
  target: Target | undefined,
  marker: Buffer,
): Promise<void> {
  if (target === undefined || target.size === 0 || isThere(plan, target)) return;
  if (!target.has(MARKER))
    throw new BackupError(
      `the Space's bucket is not empty, it has ${target.size} objects: stop the broker, and restore into an empty bucket`,
    );
  const other = `another restore of this bucket was cut short (${MARKER} says which): give that one again, or empty the bucket`;
  const { body } = await run.bucket
    .read(MARKER, 64 * 1024, { signal: run.signal })
    .catch((error: unknown) => {
      throw isAbsent(error) ? new BackupError(other, { cause: error }) : error;
    });
  if (!body.equals(marker)) throw new BackupError(other);
  const planned = new Set(plan.entries.map(({ key }) => key));
  const foreign = [...target.keys()].filter((key) => key !== MARKER && !planned.has(key));
  const [first] = foreign;
  if (first !== undefined)
    throw new BackupError(
      `something else has written to the bucket since the restore was cut short, ${first} for one: stop the broker, and remove it or empty the bucket`,
    );
}
