import { join } from 'node:path';
import { run } from '../../e2e/cluster/run.ts';
import { quantile } from '../../testing/report.ts';
import type { Fixture } from './fixture.ts';
import type { Measured } from './load.ts';

/** Sends requests at a constant rate, each timed from when it was due. The first second opens the connections and is not reported. */
export type AtRate = (
  url: string,
  headers: readonly string[],
  rate: number,
  seconds: number,
) => Promise<Measured>;

/** Builds the program that sends the requests; needs Go. The returned function throws if a request does not succeed. */
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
