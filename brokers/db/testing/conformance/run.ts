import type { Conformance } from '../../../../testing/conformance.ts';
import { LOGGED } from '../../../../testing/postgres/changes.ts';
import { seeded } from '../../../../testing/random.ts';
import { census } from '../census.ts';
import { intoDatabase, MANY_DATABASES, openFixture, query } from '../postgres.ts';
import { bundleBroker } from '../process.ts';
import { startDoomed, tenantOf } from './acts.ts';
import { watchRegistry } from './checker.ts';

export interface RunOptions {
  readonly events: number;
  readonly seed: number;
  readonly tenants?: number;
  /** Of each tenant between two looks at the log, at which a broker may be killed. */
  readonly acts?: number;
  readonly onRound?: (conformance: Conformance) => void;
}

export interface Ran extends Conformance {
  readonly killed: number;
  /** What server and registry do not agree about when all has come to rest. */
  readonly problems: readonly string[];
}

/** Real brokers on a real server, with callers and kills at random, until so many events were judged, a kill among them. */
export async function runRegistry({
  events,
  seed,
  tenants = 8,
  acts = 6,
  onRound,
}: RunOptions): Promise<Ran> {
  const random = seeded(seed);
  const fixture = await openFixture(
    { settings: { ...MANY_DATABASES, ...LOGGED, synchronous_commit: 'on' } },
    { environment: { LOG_LEVEL: 'silent' } },
  );
  const program = await bundleBroker();
  const checker = await watchRegistry(intoDatabase(fixture.server.superuserUrl, 'space_registry'));
  const doomed = await startDoomed(() => program.spawn(fixture.mounts.environment), 2);
  try {
    const acting = {
      doomed,
      survivor: fixture.broker,
      provisioner: fixture.mounts.provisioner,
      checker,
      random,
    };
    const all = Array.from({ length: tenants }, (_, i) => tenantOf(`tenant-${i}`, acting));
    let conformance = await checker.check();
    const isEnough = () => conformance.events >= events && doomed.killed > 0;
    while (!isEnough() && conformance.wrong === undefined) {
      const rounds = all.map(async ({ act }) => {
        for (let done = 0; done < acts; done += 1) await act();
      });
      if (random(3) === 0) rounds.push(doomed.killOne(random));
      await Promise.all(rounds);
      conformance = await checker.check();
      onRound?.(conformance);
    }
    await doomed.stop();
    const evicting = await query<{ capsule: string; app: string }>(
      intoDatabase(fixture.server.superuserUrl, 'space_registry'),
      `SELECT capsule_id AS capsule, app_id AS app FROM broker.database WHERE state = 'ready' AND evicting`,
    );
    for (const { capsule, reopen } of all)
      await reopen(evicting.filter((row) => row.capsule === capsule).map((row) => row.app));
    await fixture.broker.round('pending drops');
    await fixture.broker.round('spares');
    const problems = conformance.wrong === undefined ? await census(fixture.server.superuserUrl) : [];
    return { ...(await checker.check()), killed: doomed.killed, problems };
  } finally {
    await doomed.stop();
    await checker.close();
    program.remove();
    await fixture.close();
  }
}
