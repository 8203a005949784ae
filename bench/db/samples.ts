import { quantile, type Row } from '../../testing/report.ts';

/** The time of each call, and of all of them together. */
export interface Samples {
  readonly ms: readonly number[];
  readonly seconds: number;
}

/** The results of one part of the benchmark. */
export interface Part {
  readonly rows: readonly Row[];
  readonly figures: Readonly<Record<string, number>>;
}

/** Runs `act` `count` times, with this many callers at once. */
export async function measure(
  count: number,
  callers: number,
  act: (i: number) => Promise<unknown>,
): Promise<Samples> {
  const ms: number[] = [];
  let next = 0;
  const started = performance.now();
  const worker = async () => {
    while (next < count) {
      const i = next;
      next += 1;
      const begun = performance.now();
      await act(i);
      ms.push(performance.now() - begun);
    }
  };
  await Promise.all(Array.from({ length: callers }, worker));
  return { ms, seconds: (performance.now() - started) / 1000 };
}

export function row(what: string, samples: Samples): Row {
  const { ms } = samples;
  const perSecond = Number.isNaN(samples.seconds) ? '' : round(rate(samples));
  return {
    what,
    n: ms.length,
    p50_ms: round(quantile(ms, 0.5)),
    p95_ms: round(quantile(ms, 0.95)),
    p99_ms: round(quantile(ms, 0.99)),
    'per second': String(perSecond),
  };
}

/** Samples with pauses between them have no rate. */
export const unpaced = (ms: readonly number[]): Samples => ({ ms, seconds: Number.NaN });
export const rate = ({ ms, seconds }: Samples): number => ms.length / seconds;
export const round = (value: number): number => Math.round(value * 100) / 100;
export const p50 = ({ ms }: Samples): number => round(quantile(ms, 0.5));
export const p99 = ({ ms }: Samples): number => round(quantile(ms, 0.99));
