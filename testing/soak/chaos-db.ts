import { client, mountFiles, startTestBroker } from '../../brokers/db/testing/broker.ts';
import { census, straySpares } from '../../brokers/db/testing/census.ts';
import { intoDatabase, query, sqlstate } from '../../brokers/db/testing/postgres.ts';
import { bundleBroker } from '../../brokers/db/testing/process.ts';
import { newToken } from '../../brokers/kit/index.ts';
import { startEmbeddedServer } from '../postgres/server.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

/**
 * Kills brokers at random moments while callers create, drop and finalize through them. Another broker runs beside them. Every
 * answer that a caller got must stay true, and at the end server and registry must agree.
 */

/** A broker is killed after at most this many answers, somewhere within the next call. */
const MOST_ANSWERS = 8;
const SIDE_BY_SIDE = 3;

export async function run({ quick }: SoakOptions): Promise<SoakReport> {
  const kills = quick ? 20 : 2_000;
  // Commits must survive processes but not the machine, so nothing needs to reach the disk.
  const server = await startEmbeddedServer({ durable: false, settings: { synchronous_commit: 'on' } });
  const program = await bundleBroker();
  const mounts = mountFiles(server, 'chaos');
  const survivor = await startTestBroker(mounts, { environment: { LOG_LEVEL: 'silent' } });
  const tally = { killed: 0, answers: 0, cut: 0, lost: 0, doubles: 0, orphans: 0 };
  const problems: string[] = [];
  try {
    const started = performance.now();
    const worker = async (name: string) => {
      while (tally.killed < kills) {
        tally.killed += 1;
        const number = tally.killed;
        await oneLife(`${name}-${number}`);
        if (number % 100 === 0)
          console.error(`${number} of ${kills} kills, ${tally.lost} lost, ${problems.length} problems`);
      }
    };
    await Promise.all(Array.from({ length: SIDE_BY_SIDE }, (_, i) => worker(`w${i}`)));
    const seconds = (performance.now() - started) / 1000;
    await survivor.round('pending drops');
    await survivor.round('spares');
    problems.push(...(await census(server.superuserUrl)));
    tally.orphans = problems.length + (await straySpares(server.superuserUrl));
    const [doubles] = await query<{ n: number }>(
      intoDatabase(server.superuserUrl, 'space_registry'),
      'SELECT count(*)::int AS n FROM (SELECT name FROM broker.database GROUP BY name HAVING count(*) > 1) doubled',
    );
    tally.doubles += doubles?.n ?? 0;
    return {
      passed: tally.orphans + tally.doubles + tally.lost === 0,
      title: 'Brokers killed with SIGKILL at random moments, PostgreSQL 18',
      rows: [
        {
          kills,
          answers: tally.answers,
          'calls without an answer': tally.cut,
          orphans: tally.orphans,
          'duplicate names': tally.doubles,
          'lost rows': tally.lost,
        },
      ],
      figures: {
        kills,
        answers: tally.answers,
        calls_cut: tally.cut,
        orphans: tally.orphans,
        doubles: tally.doubles,
        lost: tally.lost,
        kills_per_second: Math.round((kills / seconds) * 10) / 10,
      },
      notes: problems.slice(0, 10),
    };
  } finally {
    await survivor.stop();
    program.remove();
    mounts.remove();
    await server.remove();
  }

  /** Runs one broker until it is killed, with its callers, and checks afterwards. */
  async function oneLife(capsule: string): Promise<void> {
    const doomed = await program.spawn({ ...mounts.environment, SPARE_DATABASES: '1' });
    const principal = newToken('dbp').reveal();
    const urls = new Map<string, string>();
    const dropped = new Set<string>();
    /** Undefined if the broker was killed before it answered. */
    const enough = Promise.withResolvers<void>();
    let left = Math.floor(Math.random() * MOST_ANSWERS);
    let latency = 20;
    const attempt = async <T>(act: () => Promise<T>): Promise<T | undefined> => {
      const begun = performance.now();
      try {
        const value = await act();
        tally.answers += 1;
        latency = performance.now() - begun;
        left -= 1;
        if (left <= 0) enough.resolve();
        return value;
      } catch {
        tally.cut += 1;
        return undefined;
      }
    };
    const callers = async () => {
      const made = await attempt(() => client(doomed.url, mounts.provisioner).provision(capsule, principal));
      if (made?.status === 200) urls.set('', made.json.database_url);
      const one = client(doomed.url, principal);
      await Promise.all(
        ['a', 'b', 'c'].map(async (app) => {
          const created = await attempt(() => one.create(capsule, app));
          if (created?.status === 200) urls.set(app, created.json.database_url);
          if (app === 'c') return;
          const gone = await attempt(() => one.drop(capsule, app));
          if (gone?.status === 200) dropped.add(app);
        }),
      );
      const all = await attempt(() => one.dropAll(capsule));
      if (all?.status === 200) for (const app of ['', 'a', 'b', 'c']) dropped.add(app);
    };
    if (left === 0) enough.resolve();
    const calling = callers();
    await Promise.race([enough.promise, calling]);
    await new Promise((resolve) => setTimeout(resolve, Math.random() * latency * 2));
    await doomed.kill();
    await calling;

    const lose = (what: string) => {
      tally.lost += 1;
      problems.push(`${capsule}: ${what}`);
    };
    for (const app of dropped) {
      const url = urls.get(app);
      if (url !== undefined && (await sqlstate(url)) === 'ok')
        lose(`${app} was dropped, but its URL still works`);
    }
    const provisioned = await survivor.provisioner.provision(capsule, principal);
    const one = survivor.as(principal);
    if (provisioned.status === 200) {
      if (urls.has('') && provisioned.json.database_url !== urls.get('')) lose('the Capsule got another URL');
      for (const app of ['a', 'b', 'c']) {
        if (!urls.has(app) || dropped.has(app)) continue;
        const again = await one.create(capsule, app);
        // A drop whose connection was cut may have succeeded, or may still be in progress.
        if (app === 'c' && again.json.database_url !== urls.get(app)) lose(`${app} got another URL`);
      }
    }
    const end = await one.dropAll(capsule);
    if (end.status !== 200 && end.status !== 403) lose(`the last drop answered ${end.status}`);
    const finalized = await survivor.provisioner.finalize(capsule);
    if (finalized.status !== 200) lose(`finalize answered ${finalized.status}`);
  }
}
