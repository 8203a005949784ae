import { join } from 'node:path';
import { run } from '../../e2e/cluster/run.ts';
import { quantile } from '../../testing/report.ts';
import type { Fixture } from './fixture.ts';
import type { Measured } from './load.ts';

/** Requests at a constant rate, each measured from when it was due; those of a first second open the connections and are not told. */
export type AtRate = (
  url: string,
  headers: readonly string[],
  rate: number,
  seconds: number,
) => Promise<Measured>;

/** Builds what asks; needs Go. @throws (when asked) when any request is not answered with success */
export async function buildAtRate({ directory }: Fixture): Promise<AtRate> {
  const program = join(directory, 'rate');
  const source = join(import.meta.dirname, '../egress-rate');
  await run(['go', 'build', '-o', program, '.'], {
    cwd: source,
    env: { ...process.env, GOFLAGS: '-buildvcs=false' },
  });
  return async (url, headers, rate, seconds) => {
    const said = await run([program, url, String(rate), String(seconds), ...headers]);
    const { ms, seconds: lasted } = JSON.parse(said) as { ms: number[]; seconds: number };
    const perSecond = ms.length / lasted;
    return {
      count: ms.length,
      asked: ms.length + rate,
      p50: quantile(ms, 0.5),
      p99: quantile(ms, 0.99),
      perSecond,
    };
  };
}
