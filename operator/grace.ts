import { type Finding, no } from './conditions.ts';
import type { Context } from './context.ts';
import type { KubeObject } from './runtime/kube-object.ts';

/** The longest timer, in milliseconds; Node's own overflow after 24 days. */
const LONGEST_WAIT_MS = 3_600_000;

/** Data that is still kept although its owner is being deleted. */
export interface Grace {
  readonly finding: Finding;
  readonly requeueAfterMs: number;
}

/**
 * The rest of the grace period (`retention.grace`) of an object that is being deleted. It counts from the deletion, by
 * the clocks of the API server and of this process.
 */
export function graceOf(
  { names, now }: Pick<Context, 'names' | 'now'>,
  { metadata }: KubeObject,
): Grace | undefined {
  if (names.graceMs === 0 || metadata.deletionTimestamp === undefined) return undefined;
  const end = Date.parse(metadata.deletionTimestamp) + names.graceMs;
  const left = end - Date.parse(now());
  // A deletion time that cannot be read is no reason to drop data.
  if (left <= 0) return undefined;
  const until = Number.isNaN(left) ? 'an unknown time' : new Date(end).toISOString();
  return {
    finding: no(
      'RetentionGrace',
      `It runs no more, and its data is dropped after ${until}. Until then spec.deletionPolicy "Retain" keeps the data for the next of this name.`,
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
