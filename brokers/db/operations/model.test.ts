import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { PostgresMajor } from '../../../testing/postgres/binaries.ts';
import type { TestBroker } from '../testing/broker.ts';
import { census } from '../testing/census.ts';
import { schedules } from '../testing/model.ts';
import { type Fixture, MANY_DATABASES, openFixture } from '../testing/postgres.ts';
import { checkSchedules } from '../testing/schedules.ts';

const MAJORS: readonly PostgresMajor[] = ['15', '16', '17', '18'];
/** The newest version has the most; `npm run soak -- model-db` continues for a given time. */
const runsOf = (major: PostgresMajor) => (major === '18' ? 300 : 75);

describe.each(MAJORS)('on PostgreSQL %s', (major) => {
  const runs = runsOf(major);
  let fixture: Fixture;
  let replica: TestBroker;
  beforeAll(async () => {
    fixture = await openFixture({ major, settings: MANY_DATABASES });
    replica = await fixture.replica();
  });
  afterAll(async () => {
    await replica.stop();
    await fixture.close();
  });

  it(`${runs} random schedules over two replicas are what a sequential broker could have answered`, {
    timeout: 900_000,
  }, async () => {
    const { broker, mounts, server } = fixture;
    const seed = Number(process.env['MODEL_SEED'] ?? Date.now() % 2 ** 31);
    const contradiction = await checkSchedules(
      [broker.url, replica.url],
      mounts.provisioner,
      schedules(runs, seed),
      'm',
    );
    expect(contradiction, `MODEL_SEED=${seed}`).toBeUndefined();
    expect(await census(server.superuserUrl)).toEqual([]);
  });
});
