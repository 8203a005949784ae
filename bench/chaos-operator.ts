/**
 * Kills the operator, both brokers and PostgreSQL with SIGKILL at random moments while users create, change, suspend and
 * delete Capsules and Assistants. When it is over, every survivor must become Ready with a URL and a token that work and
 * with all the data that its life had left, and nothing else may exist; then all is deleted, and nothing may.
 *
 * Real are the API server with etcd, PostgreSQL, the S3 server, and operator and brokers as processes of their own. There
 * is no kubelet and no sandbox: a stand-in gives Deployments their pods and says of them what a kubelet would, and
 * empties namespaces that are deleted. Egress has no part in it. `--kills N` for another number of kills.
 */
import { randomUUID } from 'node:crypto';
import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import type { EmbeddedServer } from '../brokers/db/embedded/server.ts';
import { census, straySpares } from '../brokers/db/testing/census.ts';
import { bundleBroker } from '../brokers/db/testing/process.ts';
import { freePort } from '../brokers/kit/testing/ports.ts';
import { BUCKET } from '../brokers/objectstore/testing/broker.ts';
import { spawnBroker as spawnObjectStore } from '../brokers/objectstore/testing/process.ts';
import { type Stage as ObjectStage, setStageOn } from '../brokers/objectstore/testing/stage.ts';
import * as kinds from '../operator/kinds.ts';
import { LABEL } from '../operator/names.ts';
import { type KubeObject, pathOf, type Resource } from '../operator/runtime/objects.ts';
import { eventually } from '../operator/testing/eventually.ts';
import type { TestSpace } from '../operator/testing/space.ts';
import { openTheatre, type Theatre } from '../operator/testing/stage.ts';
import { testPrograms } from '../scripts/programs.ts';
import { doom, type Mortal } from './operator/mortal.ts';
import { Population, type PopulationSize, type Wished } from './operator/population.ts';
import { operatorProgram } from './operator/process.ts';
import { tenants } from './operator/tenant.ts';
import type { Report } from './report.ts';

const SIZES = {
  quick: { kills: 20, population: { capsules: 6, assistants: 18, running: 8 } },
  full: { kills: 500, population: { capsules: 50, assistants: 150, running: 40 } },
};
const MEAN_LIFE_MS = { operator: 4_000, 'db-broker': 5_000, 'objectstore-broker': 6_000, postgres: 15_000 };
const SETTLE_MS = 15 * 60_000;
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
  const fate = doom(cast.parts, kills, Math.random);
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
      if (acts % 100 === 0) say(`${acts} acts, kills ${JSON.stringify(fate.killed)}`);
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

    say('the end of all');
    for (const name of expected.capsules) await population.deleteCapsule(name);
    problems.push(...(await eventualRest(theatre, space, objects, { capsules: [], assistants: [] })));
    const killed = Object.values(fate.killed).reduce((sum, count) => sum + count, 0);
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
        kills: killed,
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

const pick = <T>(all: readonly T[]): T | undefined => all[Math.floor(Math.random() * all.length)];

/** The parts that are killed, each on a port that it keeps. */
async function assemble({ server, stage }: Theatre, space: TestSpace, objects: ObjectStage) {
  const [dbPort, objectsPort, dataPort] = [await freePort(), await freePort(), await freePort()];
  const dbBroker = await bundleBroker();
  // Those in this process go: what survives must be the work of those that are killed.
  await stage.broker.stop();
  await objects.broker.stop();
  const operator = await operatorProgram({
    names: space.names,
    kubeconfig: server.kubeconfig,
    dbBrokerUrl: `http://127.0.0.1:${dbPort}`,
    dbProvisionerToken: stage.mounts.provisioner,
    objectStore: {
      url: `http://127.0.0.1:${objectsPort}`,
      provisionerToken: objects.mounts.provisioner,
    },
  });
  const pod = { name: 'operator', uid: randomUUID() };
  const parts: Mortal[] = [
    { name: 'operator', meanLifeMs: MEAN_LIFE_MS.operator, start: () => operator.start(pod) },
    {
      name: 'db-broker',
      meanLifeMs: MEAN_LIFE_MS['db-broker'],
      start: () => dbBroker.spawn({ ...stage.mounts.environment, LISTEN_PORT: String(dbPort) }),
    },
    {
      name: 'objectstore-broker',
      meanLifeMs: MEAN_LIFE_MS['objectstore-broker'],
      start: () =>
        spawnObjectStore({
          ...objects.mounts.environment,
          LISTEN_PORT: String(objectsPort),
          DATA_PORT: String(dataPort),
        }),
    },
    { name: 'postgres', meanLifeMs: MEAN_LIFE_MS.postgres, start: postgres(stage.server) },
  ];
  return {
    parts,
    dataUrl: `http://127.0.0.1:${dataPort}`,
    async remove() {
      dbBroker.remove();
      await operator.remove();
    },
  };
}

/** It was started with the stage; once it was killed, it starts on the same data. */
function postgres(server: EmbeddedServer): Mortal['start'] {
  let started = true;
  return async () => {
    if (!started) await server.start();
    started = false;
    return { kill: () => server.kill(), gone: new Promise(() => {}) };
  };
}

/** All Capsules are Ready and all Assistants are what they were wished; those that are suspended run in turns. */
async function ready(space: TestSpace, population: Population, survivors: readonly Wished[]): Promise<void> {
  const becomes = (resource: Resource, name: string, wanted: string) =>
    eventually(
      async () => {
        const object = await space.get<kinds.Assistant>(resource, name);
        const condition = object?.status?.conditions?.find(({ type }) => type === 'Ready');
        if (object?.status?.observedGeneration !== object?.metadata.generation)
          throw new Error('not looked at');
        if (condition?.reason === wanted) return true;
        throw new Error(`${condition?.reason}: ${condition?.message}`);
      },
      { what: `${resource.kind} ${name} is ${wanted}`, within: SETTLE_MS },
    );
  for (const name of population.capsules) await becomes(kinds.CAPSULE, name, 'Ready');
  const suspended = survivors.filter((one) => one.suspended);
  for (const one of suspended) await becomes(kinds.ASSISTANT, one.name, 'Suspended');
  for (const one of survivors) if (!one.suspended) await becomes(kinds.ASSISTANT, one.name, 'Ready');
  for (const one of survivors) if (!one.suspended) await population.suspend(one, true);
  while (suspended.length > 0) {
    const turn: Wished[] = [];
    for (const one of suspended) {
      await population.suspend(one, false);
      if (one.suspended) break;
      turn.push(one);
    }
    suspended.splice(0, turn.length);
    for (const one of turn) await becomes(kinds.ASSISTANT, one.name, 'Ready');
    for (const one of turn) await population.suspend(one, true);
  }
}

interface Expected {
  readonly capsules: readonly string[];
  readonly assistants: readonly Wished[];
}

/** What is there and must not be, or the other way round, once upkeep has had its time. */
async function eventualRest(
  theatre: Theatre,
  space: TestSpace,
  objects: ObjectStage,
  expected: Expected,
): Promise<string[]> {
  let problems: string[] = [];
  const none = async () => {
    problems = await differences(theatre, space, objects, expected);
    return problems.length === 0;
  };
  await eventually(none, { what: 'nothing else is there', within: SETTLE_MS / 3 }).catch(() => undefined);
  return problems;
}

async function differences(
  { server, stage }: Theatre,
  space: TestSpace,
  objects: ObjectStage,
  { capsules, assistants }: Expected,
): Promise<string[]> {
  const { space: label, namespace } = space.names;
  const all = async (resource: Resource) => {
    const { items } = await server.client.call<{ items: readonly KubeObject[] }>({
      method: 'GET',
      path: pathOf(resource),
      query: { labelSelector: `${LABEL.space}=${label}` },
    });
    return items
      .filter(({ metadata }) => metadata.namespace !== space.names.servicesNamespace)
      .map(({ metadata }) => `${metadata.namespace ?? ''}/${metadata.name}`);
  };
  const places = assistants.map(({ capsule, id }) => ({ in: space.namespaceOf(capsule), id }));
  const registered = async (from: Promise<readonly { readonly one: string }[]>) =>
    (await from).map(({ one }) => one);
  const workloads = assistants.map(({ capsule, id }) => `${capsule}/${id}`);
  const lists: readonly (readonly [string, readonly string[], readonly string[]])[] = [
    ['Namespace', await all(kinds.NAMESPACE), capsules.map((name) => `/${space.namespaceOf(name)}`)],
    [
      'Secret',
      await all(kinds.SECRET),
      [
        ...capsules.flatMap((name) =>
          ['database', 'objectstore'].map((of) => `${namespace}/capsule-${name}-${of}`),
        ),
        ...places.flatMap((place) =>
          ['database', 'objectstore'].map((of) => `${place.in}/${place.id}-${of}`),
        ),
      ],
    ],
    ['Deployment', await all(kinds.DEPLOYMENT), places.map((place) => `${place.in}/${place.id}`)],
    ['Service', await all(kinds.SERVICE), places.map((place) => `${place.in}/${place.id}`)],
    [
      'database',
      await registered(
        stage.registry(
          `SELECT capsule_id || '/' || app_id AS one FROM broker.database WHERE state <> 'dropped'`,
        ),
      ),
      [...capsules.map((name) => `${name}/`), ...workloads],
    ],
    [
      'place',
      await registered(
        objects.registry(
          `SELECT capsule_id || '/' || app_id AS one FROM broker.workload WHERE state <> 'dropped'`,
        ),
      ),
      workloads,
    ],
  ];
  const problems = lists.flatMap(([what, found, wanted]) => [
    ...found.filter((one) => !wanted.includes(one)).map((one) => `${what} of nobody: ${one}`),
    ...wanted.filter((one) => !found.includes(one)).map((one) => `${what} is missing: ${one}`),
  ]);
  problems.push(...(await census(stage.server.superuserUrl)));
  const strays = await straySpares(stage.server.superuserUrl);
  if (strays > 0) problems.push(`${strays} spare databases of nobody`);
  const roles = await stage.sql<{ one: string }>(
    `SELECT rolname AS one FROM pg_roles WHERE rolcanlogin AND starts_with(rolname, 'spc_')`,
  );
  if (roles.length !== capsules.length + assistants.length) problems.push(`${roles.length} roles`);
  if (assistants.length === 0) {
    const files = await objectsIn(join(objects.s3.directory, BUCKET, 'c'));
    problems.push(...files.map((file) => `object of nobody: ${file}`));
  }
  return problems;
}

/** The S3 server keeps an object as a file. */
async function objectsIn(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { recursive: true, withFileTypes: true }).catch(() => []);
  return entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
}
