import { quantile, type Row } from '../../testing/report.ts';
import { KIB, type Measured, MIB } from './load.ts';

/** Formats results: a line for each as soon as it is known, then rows, figures and targets. */

export interface Target {
  readonly what: string;
  readonly at: string;
  readonly met: boolean;
}

/** Contestants are compared with DIRECT, and the broker has to be faster than OVERTAKEN everywhere. */
const DIRECT = 'direct';
const BROKER = 'broker';
const OVERTAKEN = 'rclone serve s3';

const LARGE_RATIO = 0.5;
const SMALL_GET_RATIO = 0.4;
const SMALL_GET_MS = 4;

type Results = ReadonlyMap<string, Measured>;

export const label = (size: number) => (size >= MIB ? `${size / MIB} MiB` : `${size / KIB} KiB`);
const key = (text: string) => text.toLowerCase().replace(/[^a-z0-9]+/g, '_');
const round = (value: number) => Math.round(value * 100) / 100;
const percent = (ratio: number) => `${Math.round(100 * ratio)} %`;
const ratioOf = (one: Measured, direct: Measured | undefined) =>
  direct === undefined ? Number.NaN : one.perSecond / direct.perSecond;

/** Returns the median of several rounds. */
export function middle(rounds: readonly Measured[], by: (one: Measured) => number): Measured {
  const found = rounds.toSorted((a, b) => by(a) - by(b))[Math.floor(rounds.length / 2)];
  if (found === undefined) throw new Error('no round was measured');
  return found;
}

export const byRate = ({ perSecond }: Measured) => perSecond;
export const byP99 = ({ ms }: Measured) => quantile(ms, 0.99);

export function lineOf(what: string, by: string, one: Measured): string {
  const p99 =
    one.ms.length === 0 ? '' : `, p99 ${round(quantile(one.ms, 0.99))} ms of ${one.ms.length} requests`;
  return `${what}, ${by}: ${round(one.perSecond)}/s, ${round(one.mibPerSecond)} MiB/s, ${round(one.cpu)} cores${p99}`;
}

export function rowOf(
  what: string,
  by: string,
  one: Measured,
  results: Results,
  figures: Record<string, number>,
): Row {
  const ratio = ratioOf(one, results.get(DIRECT));
  const name = `${key(by)}_${key(what)}`;
  if (by !== DIRECT && !Number.isNaN(ratio)) figures[`${name}_ratio`] = round(ratio);
  if (one.ms.length > 0) figures[`${name}_p99_ms`] = round(quantile(one.ms, 0.99));
  const at = (q: number) => (one.ms.length === 0 ? '' : quantile(one.ms, q).toFixed(2));
  return {
    what,
    by,
    'per second': round(one.perSecond),
    'MiB/s': round(one.mibPerSecond),
    p50_ms: at(0.5),
    p99_ms: at(0.99),
    'its cores': round(one.cpu),
    'rate / direct': Number.isNaN(ratio) ? '' : percent(ratio),
  };
}

/** The targets of such a comparison. */
export function targetsOf(what: string, results: Results): Target[] {
  const [broker, direct, other] = [BROKER, DIRECT, OVERTAKEN].map((name) => results.get(name));
  if (broker === undefined || direct === undefined || other === undefined) return [];
  const steady = what.includes('/s');
  const smallGet = what.startsWith(`GET ${label(KIB)} `);
  const least = smallGet ? SMALL_GET_RATIO : what.includes(` ${label(KIB)} `) ? undefined : LARGE_RATIO;
  const ratio = ratioOf(broker, direct);
  const targets: Target[] = [];
  if (!steady && least !== undefined)
    targets.push({
      what: `${what}: the rate is at least ${percent(least)} of direct`,
      at: percent(ratio),
      met: ratio >= least,
    });
  if (!steady) {
    const ahead = broker.perSecond / other.perSecond;
    targets.push({
      what: `${what}: the rate is above that of ${OVERTAKEN}`,
      at: `${round(ahead)} times its rate`,
      met: ahead > 1,
    });
  }
  // With many clients in a closed loop, latency is their number divided by the rate and would repeat the ratio.
  if (smallGet && (steady || what.endsWith('× 1'))) {
    const more = quantile(broker.ms, 0.99) - quantile(direct.ms, 0.99);
    targets.push({
      what: `${what}: p99 is at most ${SMALL_GET_MS} ms above direct`,
      at: `${round(more)} ms`,
      met: more <= SMALL_GET_MS,
    });
  }
  return targets;
}
