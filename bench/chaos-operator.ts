/**
 * Kills the operator, both brokers and PostgreSQL with SIGKILL at random moments while users create, change, suspend and
 * delete Capsules and Assistants. When it is over, every survivor must become Ready with a URL and a token that work and
 * with all the data that its life had left, and nothing else may exist; then all is deleted, and nothing may.
 *
 * Real are the API server with etcd, PostgreSQL, the S3 server, and operator and brokers as processes of their own. There
 * is no kubelet and no sandbox: a stand-in gives Deployments their pods and says of them what a kubelet would, and
 * empties namespaces that are deleted. Egress has no part in it. `--kills N` for another number of kills.
 */
import { setStageOn } from '../brokers/objectstore/testing/stage.ts';
import type { TestSpace } from '../operator/testing/space.ts';
import { openTheatre, type Theatre } from '../operator/testing/stage.ts';
import { testPrograms } from '../scripts/programs.ts';
import { assemble } from './chaos-operator/cast.ts';
import { eventualRest } from './chaos-operator/inventory.ts';
import { ready } from './chaos-operator/survivors.ts';
import { tenants } from './chaos-operator/tenant.ts';
import { doom } from './operator/mortal.ts';
import { Population, type PopulationSize } from './operator/population.ts';
import type { Report } from './report.ts';

const SIZES = {
  quick: { kills: 20, population: { capsules: 6, assistants: 18, running: 8 } },
  full: { kills: 500, population: { capsules: 50, assistants: 150, running: 40 } },
};
/** Between two acts of users. */
const PAUSE_MS = 40;

export async function run(options: { readonly quick: boolean; readonly kills?: number }): Promise<Report> {
  process.env['SPACE_TEST_BIN'] ??= await testPrograms('.space/bench/bin');
  const size = options.quick ? SIZES.quick : SIZES.full;
  // What was committed must outlive processes; the machine itself stays up, so nothing need reach the disk.
  const theatre = await openTheatre({ settings: { synchronous_commit: 'on' } });
  try {
    return await chaos(theatre, await theatre.space(), size.population, options.kills ?? size.kills);
  } finally {
    await theatre.close();
  }
}

async function chaos(
  theatre: Theatre,
  space: TestSpace,
  size: PopulationSize,
  kills: number,
): Promise<Report> {
  const started = performance.now();
  const say = (what: string) =>
    console.error(`${Math.round((performance.now() - started) / 1000)} s: ${what}`);
  const { stage, server } = theatre;
  const objects = await setStageOn(stage.server);
  const cast = await assemble(theatre, space, objects);
  const population = new Population(server.client, space.names.namespace, size, Math.random);
  const tenant = tenants(space, () => cast.dataUrl);
  const marked = new Set<string>();
  const fate = doom(cast.parts, kills, Math.random, (name, error) =>
    say(`${name} did not start: ${String(error).slice(0, 1000)}`),
  );
  try {
    let lasting = true;
    const over = fate.over.finally(() => {
      lasting = false;
    });
    say(`${kills} kills, ${size.capsules} Capsules, ${size.assistants} Assistants`);
    await population.fill();
    let acts = 0;
    while (lasting) {
      await population.act();
      acts += 1;
      const one = pick([...population.assistants.values()].filter(({ suspended }) => !suspended));
      if (acts % 3 === 0 && one && (await tenant.mark(one))) marked.add(one.uid);
      if (acts % 100 === 0) say(`${acts} acts, ${sumOf(fate.killed)} kills ${JSON.stringify(fate.killed)}`);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    await over;

    say('over; the survivors');
    const problems: string[] = [...fate.ended.map((name) => `${name} ended by itself`)];
    const survivors = [...population.assistants.values()];
    await ready(space, population, survivors);
    for (const one of survivors)
      for (const problem of await tenant.problems(one, marked.has(one.uid)))
        problems.push(`${one.name}: ${problem}`);
    const kept = survivors.filter(({ uid }) => marked.has(uid)).length;
    const expected = { capsules: [...population.capsules], assistants: survivors };
    problems.push(...(await eventualRest(theatre, space, objects, expected)));
    const survived = { capsules: population.capsules.size, assistants: survivors.length };

    for (const problem of problems) say(problem);
    say('the end of all');
    for (const name of expected.capsules) await population.deleteCapsule(name);
    problems.push(...(await eventualRest(theatre, space, objects, { capsules: [], assistants: [] })));
    return {
      title: 'Operator, brokers and PostgreSQL killed at random moments, real API server, no kubelet',
      rows: [
        ...Object.entries(fate.killed).map(([what, count]) => ({ what: `kills: ${what}`, count })),
        ...Object.entries(population.acts).map(([what, count]) => ({ what, count })),
        { what: 'surviving Capsules', count: survived.capsules },
        { what: 'surviving Assistants, all Ready', count: survived.assistants },
        { what: '… whose data was checked', count: kept },
        { what: 'problems', count: problems.length },
      ],
      figures: {
        kills: sumOf(fate.killed),
        acts,
        capsules: survived.capsules,
        assistants: survived.assistants,
        checked: kept,
        problems: problems.length,
      },
      notes: problems.slice(0, 20),
    };
  } finally {
    await fate.stop();
    await cast.remove();
    await objects.close();
  }
}

const sumOf = (counts: Readonly<Record<string, number>>) =>
  Object.values(counts).reduce((sum, count) => sum + count, 0);

const pick = <T>(all: readonly T[]): T | undefined => all[Math.floor(Math.random() * all.length)];
