/**
 * Kills the operator, the brokers and PostgreSQL with SIGKILL at random moments while users create, change, suspend and
 * delete Capsules and Assistants. Afterwards, every Assistant that was not deleted must become Ready with a URL and a token that
 * work and with all data of its incarnation, and nothing else may exist. Then all are deleted, and nothing may remain.
 *
 * The API server with etcd, PostgreSQL and the S3 server are real; operator and brokers are processes of their own. There is no
 * kubelet and no sandbox: a stand-in creates the pods of Deployments, reports their status as a kubelet would, and empties
 * deleted namespaces. The egress gateway does not take part. `--kills N` sets another number of kills.
 *
 * `--cluster` does the same to the running Space (`npm run up`), where everything is real: Assistants are ledgers in gVisor, and
 * the egress gateway is killed, too. Administrators upgrade it, roll back, back it up, and restore a Capsule from the backup
 * under another name, whose data must be that of the moment. What existed before must exist afterwards.
 */
import { eventualDifferences, inventory } from './chaos-operator/inventory.ts';
import { killAtRandom } from './chaos-operator/killer.ts';
import { type DesiredAssistant, Population, type PopulationSize } from './chaos-operator/population.ts';
import { ready } from './chaos-operator/survivors.ts';
import type { World } from './chaos-operator/world.ts';
import type { SoakOptions, SoakReport } from './soak.ts';

interface Size {
  readonly kills: number;
  readonly population: PopulationSize;
  /** The pause between two acts of users. */
  readonly pauseMs: number;
}

const SIZES = {
  quick: { kills: 20, population: { capsules: 6, assistants: 18, running: 8 }, pauseMs: 40 },
  full: { kills: 500, population: { capsules: 50, assistants: 150, running: 40 }, pauseMs: 40 },
};
/** A pod in gVisor takes seconds to start, and the control plane shares the machine. */
const CLUSTER_SIZES = {
  quick: { kills: 20, population: { capsules: 3, assistants: 9, running: 6 }, pauseMs: 1_000 },
  full: { kills: 100, population: { capsules: 5, assistants: 15, running: 9 }, pauseMs: 1_000 },
};

export async function run({ quick, kills, cluster = false }: SoakOptions): Promise<SoakReport> {
  const size: Size = (cluster ? CLUSTER_SIZES : SIZES)[quick ? 'quick' : 'full'];
  const world = cluster
    ? await (await import('./chaos-operator/cluster.ts')).openCluster()
    : await (await import('./chaos-operator/processes.ts')).openProcesses();
  try {
    return await chaos(world, { ...size, kills: kills ?? size.kills });
  } finally {
    await world.close();
  }
}

async function chaos(world: World, size: Size): Promise<SoakReport> {
  const started = performance.now();
  const say = (what: string) =>
    console.error(`${Math.round((performance.now() - started) / 1000)} s: ${what}`);
  const { space, tenant } = world;
  const { kills, population: counts } = size;
  const before = await inventory(world);
  const population = new Population(space.client, space.names.namespace, counts, Math.random, world.make);
  const marked = new Set<string>();
  const killer = killAtRandom(world.parts, kills, Math.random, (name, error) =>
    say(`${name} did not start: ${String(error).slice(0, 1000)}`),
  );
  let lasting = true;
  const there = () => [...population.assistants.values()];
  const keeping = {
    marked: () => pick(there().filter(({ uid }) => marked.has(uid))),
    isThere: (one: DesiredAssistant) => there().some(({ uid }) => uid === one.uid),
  };
  const { administrators } = world;
  let acting: Promise<void> | undefined;
  try {
    const over = killer.over.finally(() => {
      lasting = false;
    });
    say(`${kills} kills, ${counts.capsules} Capsules, ${counts.assistants} Assistants`);
    await population.fill();
    acting = administrators?.act(() => lasting, keeping);
    let acts = 0;
    let told = 0;
    while (lasting) {
      await population.act();
      acts += 1;
      const one = pick([...population.assistants.values()].filter(({ suspended }) => !suspended));
      if (acts % 3 === 0 && one && (await tenant.mark(one))) marked.add(one.uid);
      const done = sumOf(killer.killed);
      if (done >= told + 10) {
        told = done;
        say(`${acts} acts, ${done} kills ${JSON.stringify({ ...killer.killed, ...administrators?.done })}`);
      }
      await new Promise((resolve) => setTimeout(resolve, size.pauseMs));
    }
    await over;
    say('all kills are done; waiting for the administrators');
    await acting;

    say('checking the survivors');
    const problems: string[] = [
      ...killer.ended.map((name) => `${name} ended without being killed`),
      ...(administrators?.problems ?? []),
    ];
    const survivors = [...population.assistants.values()];
    await ready(space, population, survivors, async (one) => {
      for (const problem of await tenant.problems(one, marked.has(one.uid)))
        problems.push(`${one.name}: ${problem}`);
    });
    const kept = survivors.filter(({ uid }) => marked.has(uid)).length;
    const expected = { capsules: [...population.capsules], assistants: survivors };
    problems.push(...(await eventualDifferences(world, before, expected)));
    const survived = { capsules: population.capsules.size, assistants: survivors.length };

    for (const problem of problems) say(problem);
    say('deleting everything');
    for (const name of expected.capsules) await population.deleteCapsule(name);
    problems.push(...(await eventualDifferences(world, before, { capsules: [], assistants: [] })));
    return {
      passed: problems.length === 0,
      title: world.title,
      rows: [
        ...Object.entries(killer.killed).map(([what, count]) => ({ what: `kills: ${what}`, count })),
        ...world.rows(),
        ...Object.entries(population.acts).map(([what, count]) => ({ what, count })),
        ...Object.entries(administrators?.done ?? {}).map(([what, count]) => ({ what, count })),
        { what: 'surviving Capsules', count: survived.capsules },
        { what: 'surviving Assistants, all Ready', count: survived.assistants },
        { what: 'surviving Assistants whose data was checked', count: kept },
        { what: 'problems', count: problems.length },
      ],
      figures: {
        kills: sumOf(killer.killed),
        acts,
        capsules: survived.capsules,
        assistants: survived.assistants,
        checked: kept,
        problems: problems.length,
      },
      notes: [
        ...problems.slice(0, 20),
        ...world.ended().map((what) => `Ended without being killed: ${what}`),
      ],
    };
  } finally {
    lasting = false;
    await killer.stop();
    await acting?.catch(() => undefined);
    await Promise.allSettled([...population.capsules].map((name) => population.deleteCapsule(name)));
  }
}

const sumOf = (counts: Readonly<Record<string, number>>) =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

const pick = <T>(all: readonly T[]): T | undefined => all[Math.floor(Math.random() * all.length)];
