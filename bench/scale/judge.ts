import { quantile, type Row } from '../../testing/report.ts';
import type { PopulationSize } from '../operator/population.ts';

/** The resync interval of `operator.ts`. */
const SWEEP_SECONDS = 600;

/** The cost of one size of the population. */
export interface Cost {
  readonly settleSeconds: number;
  readonly settleCpuSeconds: number;
  readonly assistantWrites: number;
  readonly capsuleWrites: number;
  readonly assistantEvents: number;
  readonly capsuleEvents: number;
  readonly requests: number;
  readonly brokerCalls: number;
  readonly emptyRssMiB: number;
  readonly rssMiB: number;
  readonly peakRssMiB: number;
  readonly restWrites: number;
  readonly restCpuPercent: number;
  readonly restartSeconds: number;
  readonly restartCpuSeconds: number;
  readonly restartPeakRssMiB: number;
  readonly restartWrites: number;
  readonly restartRequests: number;
  readonly live: readonly number[];
  readonly calm: readonly number[];
  readonly plannedMs: number;
  readonly crashMs: number;
}

/** A line of the table, and its figure for machines. */
export interface Judged {
  readonly key: string;
  readonly figure: number;
  readonly row: Row;
}

type Size = PopulationSize & { readonly restSeconds: number };

/** Compares the cost with its limits. */
export const judge = (size: Size, small: Cost, large: Cost): Judged[] => [
  ...costsOf(size, large),
  ...changesOf(large),
  ...growthOf(small, large),
];

/** The cost of settling, of resting, and of a restart. */
function costsOf(size: Size, large: Cost): Judged[] {
  const perSecond = size.assistants / large.settleSeconds;
  const sweepPercent = (100 * large.restartCpuSeconds) / SWEEP_SECONDS;
  const objects = size.capsules + size.assistants;
  // A rest that is longer than the interval has resyncs in it.
  const restPercent = size.restSeconds < SWEEP_SECONDS ? 1 : Math.ceil(10 * (1 + sweepPercent)) / 10;
  return [
    most('settle_seconds', 'time to settle', 's', large.settleSeconds, 150),
    line('assistants_per_second', 'Assistants settled', '/s', perSecond, '≥ 20', perSecond >= 20),
    most('writes_per_assistant', 'writes per Assistant', '', large.assistantWrites, 4),
    most('writes_per_capsule', 'writes per Capsule', '', large.capsuleWrites, 12),
    told('events_per_assistant', 'Events per Assistant, among its writes', '', large.assistantEvents),
    told('events_per_capsule', 'Events per Capsule, among its writes', '', large.capsuleEvents),
    told('requests_per_object', 'requests per object', '', large.requests / objects),
    told('broker_calls', 'broker calls', '', large.brokerCalls),
    most('peak_rss_mib', 'RSS, peak while settling', 'MiB', large.peakRssMiB, 200),
    most('rss_mib', 'RSS at rest', 'MiB', large.rssMiB, 200),
    most('rest_writes', `writes at rest, in ${size.restSeconds} s`, '', large.restWrites, 0),
    line(
      'rest_cpu_percent',
      'CPU at rest',
      '% of a core',
      large.restCpuPercent,
      `< ${restPercent}`,
      large.restCpuPercent < restPercent,
    ),
    told('sweep_cpu_percent', `CPU of a resync every ${SWEEP_SECONDS} s`, '% of a core', sweepPercent),
    most('restart_writes', 'writes of a restart', '', large.restartWrites, 0),
    told('restart_seconds', 'time from a restart until at rest', 's', large.restartSeconds),
    told(
      'restart_requests_per_object',
      'requests of a restart per object',
      '',
      large.restartRequests / objects,
    ),
    most('restart_peak_rss_mib', 'RSS, peak of a restart', 'MiB', large.restartPeakRssMiB, 200),
  ];
}

/** The time of one change, and of a fail-over. */
function changesOf(large: Cost): Judged[] {
  return [
    line(
      'live_p99_ms',
      `live change while settling, p99 of ${large.live.length}`,
      'ms',
      quantile(large.live, 0.99),
      '< 250',
      quantile(large.live, 0.99) < 250,
    ),
    told('live_p50_ms', 'live change while settling, p50', 'ms', quantile(large.live, 0.5)),
    told('calm_p99_ms', `live change at rest, p99 of ${large.calm.length}`, 'ms', quantile(large.calm, 0.99)),
    told('calm_p50_ms', 'live change at rest, p50', 'ms', quantile(large.calm, 0.5)),
    most('planned_failover_ms', 'fail-over, planned', 'ms', large.plannedMs, 3_000),
    most('crash_failover_ms', 'fail-over after a crash', 'ms', large.crashMs, 18_000),
  ];
}

/** Judges the cost of twice as many objects. */
function growthOf(small: Cost, large: Cost): Judged[] {
  return [
    most(
      'settle_cpu_growth',
      'growth of CPU to settle',
      '×',
      large.settleCpuSeconds / small.settleCpuSeconds,
      2.3,
    ),
    most(
      'restart_cpu_growth',
      'growth of CPU of a restart',
      '×',
      large.restartCpuSeconds / small.restartCpuSeconds,
      2.3,
    ),
    most(
      'rss_growth',
      'growth of RSS above an empty Space',
      '×',
      (large.peakRssMiB - large.emptyRssMiB) / (small.peakRssMiB - small.emptyRssMiB),
      2.3,
    ),
  ];
}

const most = (key: string, measure: string, unit: string, figure: number, target: number): Judged =>
  line(key, measure, unit, figure, `≤ ${target}`, figure <= target);

const told = (key: string, measure: string, unit: string, figure: number): Judged =>
  line(key, measure, unit, figure, '', undefined);

function line(
  key: string,
  measure: string,
  unit: string,
  exact: number,
  target: string,
  met: boolean | undefined,
): Judged {
  const figure = Math.round(exact * 100) / 100;
  const verdict = met === undefined ? '' : met ? 'met' : 'MISSED';
  return { key, figure, row: { measure, figure: `${figure} ${unit}`.trim(), target, verdict } };
}

export const rounded = (size: PopulationSize, { live, calm, ...cost }: Cost) => ({
  ...size,
  ...Object.fromEntries(Object.entries(cost).map(([key, value]) => [key, Math.round(value * 100) / 100])),
  live: live.length,
  liveP99Ms: Math.round(quantile(live, 0.99)),
  calmP99Ms: Math.round(quantile(calm, 0.99)),
});
