import { S3Error } from '../upstream/errors.ts';
import { bringBack, stateName } from './bring-back.ts';
import { BackupError } from './errors.ts';
import { NameTable } from './name-table.ts';
import { listed } from './pieces.ts';
import { entriesIn, type Plan, type PlanSource, planOf } from './plan.ts';
import { abortRecorded } from './recorded-upload.ts';
import { isAbsent, retrying } from './retrying.ts';
import { COMPLETIONS, MARKER, type Run } from './run.ts';

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

/** The prefix of records of uploads that a restore of the whole bucket is completing. */
const RECORDS = `${COMPLETIONS}all/`;

export type CheckReport = Omit<RestoreReport, 'skipped' | 'seconds'>;

/** Reports what a restore would do. It makes the same checks, and changes nothing. */
export async function check(
  run: Run,
  { withBucket, ...options }: RestoreOptions & { readonly withBucket: boolean },
): Promise<CheckReport> {
  return reportOf(withBucket ? await prepare(run, options) : await planned(run, options.at));
}

/** Restores the bucket. All checks are made before anything is changed. */
export async function restore(run: Run, options: RestoreOptions): Promise<RestoreReport> {
  const { bucket, clock, signal } = run;
  const again = <T>(act: () => Promise<T>) => retrying(clock, signal, act);
  const begun = clock.now();
  const { target, marker, ...planned } = await prepare(run, options);
  if (target === undefined) await again(() => bucket.createBucket({ signal }));
  await again(() => bucket.put(MARKER, marker, { headers: { 'content-type': 'application/json' }, signal }));
  const skipped = await bringBack(run, planned.plan, {
    there: target?.there ?? new NameTable(),
    keyOf: ({ key }) => key,
    records: RECORDS,
    otherwise: `empty the bucket and take another time, or keep what is there and remove ${MARKER}`,
  });
  await abortRecorded({ s3: bucket, clock, signal }, RECORDS);
  await again(() => bucket.delete(MARKER, { signal }));
  return { ...reportOf(planned), skipped, seconds: (clock.now().getTime() - begun.getTime()) / 1_000 };
}

interface Planned {
  readonly plan: Plan;
  readonly total: Total;
}

/** What a plan restores. */
interface Total {
  readonly objects: number;
  readonly bytes: number;
}

const reportOf = ({ plan: { source, notice }, total }: Planned): CheckReport => ({
  ...source,
  ...total,
  ...(notice === undefined ? {} : { notice }),
});

/** Plans the restore, reading only the backup. */
async function planned(run: Run, at: Date | undefined): Promise<Planned> {
  const plan = await planOf(run, at);
  return { plan, total: await requireContents(run, plan) };
}

/** Plans the restore, reading the backup and the bucket. */
async function prepare(run: Run, { at, makesBucket }: RestoreOptions) {
  const { plan, total } = await planned(run, at);
  const target = await targetOf(run, plan, makesBucket);
  const marker = Buffer.from(`${JSON.stringify(plan.source)}\n`);
  await retrying(run.clock, run.signal, () => requireTarget(run, total, target, marker));
  return { plan, total, target, marker };
}

/** The bucket compared with the plan. */
interface Target {
  readonly objects: number;
  readonly hasMarker: boolean;
  /** The number of objects that are as the restore would make them. */
  readonly restored: number;
  /** Its objects by `stateName`. */
  readonly there: NameTable;
  /** A key that the plan does not have. */
  readonly foreign: string | undefined;
}

/** Compares the bucket with the plan; undefined if the bucket is to be created. */
async function targetOf(run: Run, plan: Plan, makesBucket: boolean): Promise<Target | undefined> {
  const { vault } = run;
  const [there, keys, states] = [new NameTable(), new NameTable(), new NameTable()];
  const found = { objects: 0, hasMarker: false, restored: 0, foreign: undefined as string | undefined };
  try {
    for await (const object of listed({ ...run, s3: run.bucket }, '')) {
      if (found.objects === 0)
        for await (const entry of entriesIn(plan)) {
          keys.set(vault.nameOf(entry.key), 0);
          states.set(stateName(vault, entry), 0);
        }
      if (object.key.startsWith(COMPLETIONS)) continue;
      found.objects += 1;
      there.set(stateName(vault, object), 0);
      if (states.has(stateName(vault, object))) found.restored += 1;
      if (object.key === MARKER) found.hasMarker = true;
      else if (!keys.has(vault.nameOf(object.key))) found.foreign ??= object.key;
    }
    return { ...found, there };
  } catch (error) {
    if (makesBucket && error instanceof S3Error && error.code === 'NoSuchBucket') return undefined;
    throw error;
  }
}

/** The sum of a plan. @throws BackupError if the backup lacks a content that the plan needs */
export async function requireContents({ vault, signal }: Run, plan: Plan): Promise<Total> {
  const needed = new NameTable();
  let [objects, bytes, there, missing] = [0, 0, 0, 0];
  for await (const { size, content, stored } of entriesIn(plan)) {
    objects += 1;
    bytes += size;
    needed.set(content, stored);
  }
  for await (const { name, size } of vault.contents(signal))
    if (needed.get(name) === size && needed.mark(name)) there += 1;
  let first: string | undefined;
  if (there < needed.size)
    for await (const { key, content } of entriesIn(plan)) {
      if (!needed.mark(content)) continue;
      missing += 1;
      first ??= key;
    }
  if (first !== undefined)
    throw new BackupError(
      `${missing} contents of that time are missing or cut short in the backup, that of ${first} among them: take another time, with --at`,
    );
  return { objects, bytes };
}

/** Checks that the bucket is empty, or partly or completely restored by this very restore. */
async function requireTarget(
  run: Run,
  { objects }: Total,
  target: Target | undefined,
  marker: Buffer,
): Promise<void> {
  if (target === undefined || target.objects === 0) return;
  // The bucket already is what the restore would make of it, as after a restore whose end was not reported.
  if (target.objects === objects && target.restored === objects) return;
  if (!target.hasMarker)
    throw new BackupError(
      `the Space's bucket is not empty, it has ${target.objects} objects: stop the broker, and restore into an empty bucket`,
    );
  const other = `another restore of this bucket was cut short (${MARKER} says which): give that one again, or empty the bucket`;
  const { body } = await run.bucket
    .read(MARKER, 64 * 1024, { signal: run.signal })
    .catch((error: unknown) => {
      throw isAbsent(error) ? new BackupError(other, { cause: error }) : error;
    });
  if (!body.equals(marker)) throw new BackupError(other);
  if (target.foreign !== undefined)
    throw new BackupError(
      `something else has written to the bucket since the restore was cut short, ${target.foreign} for one: stop the broker, and remove it or empty the bucket`,
    );
}
