import { census } from '../../brokers/db/testing/census.ts';
import { type Schedule, schedules } from '../../brokers/db/testing/model.ts';
import { MANY_DATABASES, openFixture } from '../../brokers/db/testing/postgres.ts';
import { checkSchedules } from '../../brokers/db/testing/schedules.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/** Databases of finished schedules stay in memory, so a server is replaced after this many schedules. */
const A_SERVER = 250;

/** Compares random schedules of operations, retries and concurrent callers on two replicas with a sequential model. */
export async function run({ quick }: SoakOptions): Promise<SoakReport> {
  const count = quick ? 60 : 10_000;
  const seed = Date.now() % 2 ** 31;
  const all = schedules(count, seed);
  const started = performance.now();
  const problems: string[] = [];
  let contradiction: string | undefined;
  for (let done = 0; done < count && contradiction === undefined; done += A_SERVER) {
    const found = await onServer(all.slice(done, done + A_SERVER));
    contradiction = found.contradiction;
    problems.push(...found.problems);
    console.error(`${Math.min(done + A_SERVER, count)} of ${count} schedules`);
  }
  const seconds = Math.round((performance.now() - started) / 1000);
  const operations = all.flat(2).length;
  return {
    passed: contradiction === undefined && problems.length === 0,
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
    notes: [...(contradiction === undefined ? [] : [contradiction]), ...problems.slice(0, 10)],
  };
}

async function onServer(part: readonly Schedule[]) {
  const fixture = await openFixture({ settings: MANY_DATABASES });
  try {
    const replica = await fixture.replica();
    const urls = [fixture.broker.url, replica.url];
    const contradiction = await checkSchedules(urls, fixture.mounts.provisioner, part, 'm');
    const problems = await census(fixture.server.superuserUrl);
    await replica.stop();
    return { contradiction, problems };
  } finally {
    await fixture.close();
  }
}
