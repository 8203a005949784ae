import { type AskRegistry, censusBy, straySparesBy } from '../../../brokers/db/testing/census.ts';
import * as kinds from '../../../operator/kinds.ts';
import { LABEL } from '../../../operator/names.ts';
import { type KubeObject, pathOf, type Resource } from '../../../operator/runtime/kube-object.ts';
import { eventually } from '../../eventually.ts';
import type { DesiredAssistant } from './population.ts';
import type { World } from './world.ts';

const UPKEEP_MS = 5 * 60_000;

interface Expected {
  readonly capsules: readonly string[];
  readonly assistants: readonly DesiredAssistant[];
}

/** The names of everything that belongs to a Space, by kind. */
type Inventory = Readonly<Record<string, readonly string[]>>;

/** What exists and must not, or is missing, after the upkeep had time to repair it. */
export async function eventualDifferences(
  world: World,
  before: Inventory,
  expected: Expected,
): Promise<string[]> {
  let problems: string[] = [];
  const none = async () => {
    problems = await differences(world, before, expected);
    return problems.length === 0;
  };
  await eventually(none, { what: 'exactly the expected objects exist', within: UPKEEP_MS }).catch(
    (error: unknown) => {
      if (problems.length === 0) problems.push(String(error));
    },
  );
  return problems;
}

export async function inventory({ space, sight }: World): Promise<Inventory> {
  const { space: label, servicesNamespace } = space.names;
  const all = async (resource: Resource) => {
    const { items } = await space.client.call<{ items: readonly KubeObject[] }>({
      method: 'GET',
      path: pathOf(resource),
      query: { labelSelector: `${LABEL.space}=${label}` },
    });
    return items.filter(({ metadata }) => metadata.namespace !== servicesNamespace);
  };
  const named = async (resource: Resource) =>
    (await all(resource)).map(({ metadata }) => `${metadata.namespace ?? ''}/${metadata.name}`);
  const ofAssistants = async (resource: Resource) => {
    const found = (await all(resource)).flatMap(({ metadata }) => {
      const id = metadata.labels?.[LABEL.assistant];
      return id === undefined ? [] : [`${metadata.namespace}/${id}`];
    });
    return [...new Set(found)];
  };
  const registered = async (ask: AskRegistry, statement: string) =>
    (await ask<{ one: string }>(statement)).map(({ one }) => one);
  return {
    Namespace: await named(kinds.NAMESPACE),
    Secret: await named(kinds.SECRET),
    Deployment: await named(kinds.DEPLOYMENT),
    Service: await named(kinds.SERVICE),
    [PODS]: await ofAssistants(kinds.POD),
    [DOCUMENTS]: await ofAssistants(kinds.CONFIG_MAP),
    database: await registered(
      sight.databases,
      `SELECT capsule_id || '/' || app_id AS one FROM broker.database WHERE state <> 'dropped'`,
    ),
    place: await registered(
      sight.files,
      `SELECT capsule_id || '/' || app_id AS one FROM broker.workload WHERE state <> 'dropped'`,
    ),
    [ROLES]: await registered(
      sight.databases,
      `SELECT rolname AS one FROM pg_roles WHERE rolcanlogin AND starts_with(rolname, 'spc_')`,
    ),
    [OBJECTS]: await sight.objects(),
  };
}

const PODS = 'Pod';
const DOCUMENTS = 'document';
const ROLES = 'role';
const OBJECTS = 'object';
/** Kinds with random names, or that not every Assistant has. */
const BY_CHANCE: readonly string[] = [PODS, DOCUMENTS, ROLES, OBJECTS];

async function differences(
  world: World,
  before: Inventory,
  { capsules, assistants }: Expected,
): Promise<string[]> {
  const { space, sight, secrets } = world;
  const { systemNamespace } = space.names;
  const places = assistants.map(({ capsule, id }) => ({ in: space.namespaceOf(capsule), id }));
  const named = places.map((place) => `${place.in}/${place.id}`);
  const workloads = assistants.map(({ capsule, id }) => `${capsule}/${id}`);
  const wanted: Inventory = {
    Namespace: capsules.map((name) => `/${space.namespaceOf(name)}`),
    Secret: [
      ...capsules.flatMap((name) =>
        ['database', 'objectstore'].map((of) => `${systemNamespace}/capsule-${name}-${of}`),
      ),
      ...places.flatMap((place) => secrets.map((of) => `${place.in}/${place.id}-${of}`)),
    ],
    Deployment: named,
    Service: named,
    [PODS]: named,
    [DOCUMENTS]: named,
    database: [...capsules.map((name) => `${name}/`), ...workloads],
    place: workloads,
  };
  const now = await inventory(world);
  const problems = Object.entries(now).flatMap(([what, found]) => {
    const right = [...(before[what] ?? []), ...(wanted[what] ?? [])];
    const missing = BY_CHANCE.includes(what) ? (before[what] ?? []) : right;
    return [
      ...(what in wanted ? found.filter((one) => !right.includes(one)) : []).map(
        (one) => `unexpected ${what}: ${one}`,
      ),
      ...missing.filter((one) => !found.includes(one)).map((one) => `missing ${what}: ${one}`),
    ];
  });
  const roles = (now[ROLES] ?? []).length - (before[ROLES] ?? []).length;
  if (roles !== capsules.length + assistants.length)
    problems.push(`${roles} roles instead of ${capsules.length + assistants.length}`);
  if (assistants.length === 0) {
    const strange = (now[OBJECTS] ?? []).filter((one) => !before[OBJECTS]?.includes(one));
    problems.push(...strange.map((one) => `unexpected object: ${one}`));
  }
  problems.push(...(await censusBy(sight.databases)));
  const strays = await straySparesBy(sight.databases);
  if (strays > 0) problems.push(`${strays} spare databases that belong to nobody`);
  return problems;
}
