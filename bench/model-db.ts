import { census } from '../brokers/db/testing/census.ts';
import { checkSchedules, schedules } from '../brokers/db/testing/model.ts';
import { setStage } from '../brokers/db/testing/postgres.ts';
import type { Report } from './report.ts';

/** Random schedules of operations, retries and concurrent callers over two replicas, against a sequential model. */
export async function run({ quick }: { readonly quick: boolean }): Promise<Report> {
  const count = quick ? 60 : 10_000;
  const seed = Date.now() % 2 ** 31;
  const stage = await setStage();
  try {
    const replica = await stage.replica();
    const all = schedules(count, seed);
    const started = performance.now();
    const urls = [stage.broker.url, replica.url];
    const contradiction = await checkSchedules(urls, stage.mounts.provisioner, all, 'm', (done) => {
      if (done % 500 === 0) console.error(`${done} of ${count} schedules`);
    });
    const seconds = Math.round((performance.now() - started) / 1000);
    const problems = await census(stage.server.superuserUrl);
    await replica.stop();
    const operations = all.flat(2).length;
    return {
      title: 'Database broker against a sequential model, two replicas, PostgreSQL 18',
      rows: [
        {
          schedules: count,
          operations,
          contradiction: contradiction ?? 'none',
          'census problems': problems.length,
        },
      ],
      figures: {
        schedules: count,
        operations,
        contradictions: contradiction === undefined ? 0 : 1,
        census_problems: problems.length,
        seed,
        schedules_per_second: Math.round((count / Math.max(1, seconds)) * 10) / 10,
      },
      ...(contradiction === undefined ? {} : { notes: [contradiction] }),
    };
  } finally {
    await stage.close();
  }
}
