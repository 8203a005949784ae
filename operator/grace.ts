import type { StatusCondition } from '@space/manifests';
import type { Logger } from 'pino';
import { type Finding, no } from './conditions.ts';
import type { SpaceNames } from './names.ts';
import type { KubeObject } from './runtime/kube-object.ts';

/** The longest timer, in milliseconds; Node's own overflow after 24 days. */
const LONGEST_WAIT_MS = 3_600_000;
/** A machine that has just started may have a wrong time until its NTP client has set it. */
const SETTLING_MS = 3_600_000;
/** Clocks that differ by less agree. */
const AGREEMENT_MS = 60_000;

/** What several clocks say of the present, in milliseconds since 1970. */
export interface Clocks {
  /** This machine's clock. */
  readonly own: number;
  /** What this machine's clock was when the operator started. */
  readonly startedAt: number;
  /** That, and the time since then by the monotonic clock, which nobody sets. */
  readonly steady: number;
  /** The API server's clock as it answered; undefined if it did not say. */
  readonly server: number | undefined;
}

/** Data that is still kept although its owner is being deleted. */
export interface Grace {
  readonly finding: Finding;
  readonly requeueAfterMs: number;
}

interface Deleted extends KubeObject {
  readonly status?: { readonly conditions?: readonly StatusCondition[] };
}

const tell = ({ own, steady, server = own }: Clocks): readonly number[] => [own, steady, server];

/** By how many milliseconds the clocks differ, if they do not agree. */
export function differenceOf(clocks: Clocks): number | undefined {
  const difference = Math.max(...tell(clocks)) - Math.min(...tell(clocks));
  return difference > AGREEMENT_MS ? difference : undefined;
}

/**
 * The rest of the grace period (`retention.grace`) of an object that is being deleted. It is over when all clocks say
 * so, since one of them may be wrong and a drop cannot be undone. It counts from the deletion, by the API server's clock,
 * and from the first report of it, by the operator's.
 */
export function graceOf(
  { graceMs }: Pick<SpaceNames, 'graceMs'>,
  clocks: Clocks,
  { metadata, status }: Deleted,
): Grace | undefined {
  if (graceMs === 0 || metadata.deletionTimestamp === undefined) return undefined;
  const deleted = Date.parse(metadata.deletionTimestamp);
  const reported = status?.conditions?.find(({ type }) => type === 'Finalized')?.lastTransitionTime;
  const end = Math.max(deleted, reported === undefined ? deleted : Date.parse(reported)) + graceMs;
  const settled = clocks.startedAt + Math.min(graceMs, SETTLING_MS);
  const left = Math.max(end - Math.min(...tell(clocks)), settled - clocks.steady);
  // A time that cannot be read is no reason to drop data.
  if (left <= 0) return undefined;
  const until = Number.isNaN(left) ? 'an unknown time' : new Date(Math.max(end, settled)).toISOString();
  return {
    finding: no(
      'RetentionGrace',
      `It no longer runs, and its data is dropped after ${until}. Until then spec.deletionPolicy "Retain" keeps the data for the next one of this name.`,
    ),
    requeueAfterMs: Number.isNaN(left) ? LONGEST_WAIT_MS : Math.min(left, LONGEST_WAIT_MS),
  };
}

const UNIT_MS = { s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const;

/** `0`, or a whole number with its unit: `30m`, `72h`, `7d`; at most a year. Undefined for all else. */
export function readGrace(text: string): number | undefined {
  if (text === '0') return 0;
  const [, digits, unit] = /^([1-9][0-9]{0,7})([smhd])$/.exec(text) ?? [];
  if (digits === undefined || unit === undefined) return undefined;
  const ms = Number(digits) * UNIT_MS[unit as keyof typeof UNIT_MS];
  return ms <= 366 * UNIT_MS.d ? ms : undefined;
}

/** Says which clocks differ while data is kept by them. */
export function warnOfClocks({ log }: { readonly log: Pick<Logger, 'warn'> }, clocks: Clocks): void {
  const differenceMs = differenceOf(clocks);
  if (differenceMs === undefined) return;
  const written = (ms: number) => new Date(ms).toISOString();
  log.warn(
    {
      differenceMs,
      operator: written(clocks.own),
      sinceStart: written(clocks.steady),
      ...(clocks.server === undefined ? {} : { apiServer: written(clocks.server) }),
    },
    'clocks differ: data of deleted objects is dropped when the grace period is over by all clocks',
  );
}
