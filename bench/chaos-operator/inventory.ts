import { readdir } from 'node:fs/promises';
import { join } from 'node:path';
import { census, straySpares } from '../../brokers/db/testing/census.ts';
import { BUCKET } from '../../brokers/objectstore/testing/broker.ts';
import type { Stage as ObjectStage } from '../../brokers/objectstore/testing/stage.ts';
import * as kinds from '../../operator/kinds.ts';
import { LABEL } from '../../operator/names.ts';
import { type KubeObject, pathOf, type Resource } from '../../operator/runtime/objects.ts';
import { eventually } from '../../operator/testing/eventually.ts';
import type { TestSpace } from '../../operator/testing/space.ts';
import type { Theatre } from '../../operator/testing/stage.ts';
import type { Wished } from '../operator/population.ts';

const UPKEEP_MS = 5 * 60_000;

interface Expected {
  readonly capsules: readonly string[];
  readonly assistants: readonly Wished[];
}

/** What is there and must not be, or the other way round, once upkeep has had its time. */
export async function eventualRest(
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
  await eventually(none, { what: 'nothing else is there', within: UPKEEP_MS }).catch(() => undefined);
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
