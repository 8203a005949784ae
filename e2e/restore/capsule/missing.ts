/** What a restore of one Capsule did not bring back, in sentences for the person who has to handle it. */
import type { Database, Files } from './queries.ts';
import { idOf, type Tenant } from './tenant.ts';

export interface CapsuleFacts {
  readonly tenant: Tenant;
  /** The time of the state that Capsule and Assistants come from. */
  readonly taken: string;
  readonly at: string | undefined;
  /** What existed at that moment. */
  readonly databases: readonly Database[];
  readonly files: Files | undefined;
  /** What the copy of the bucket reports about itself. */
  readonly notice: string | undefined;
}

/** These are never restored: they are created or issued again. */
const NEVER = [
  'URLs, tokens and principals: new ones were issued, and the old ones give no access to this Capsule',
  'settings that Assistants had made for their own roles (ALTER ROLE … SET)',
  'the names of those who installed and approved its Assistants: the person who restored them is recorded instead',
];

export function notRestored({
  tenant,
  taken,
  at,
  databases,
  files,
  notice,
}: CapsuleFacts): readonly string[] {
  const ids = tenant.assistants.map(idOf);
  const had = databases.map(({ app }) => app);
  const places = Object.keys(files?.apps ?? {});
  const nobody = (all: readonly string[]) => all.filter((app) => app !== '' && !ids.includes(app));
  const none = (all: readonly string[]) => ids.filter((id) => !all.includes(id));
  const sets = files?.sets ?? 0;
  return [
    ...nobody(had).map((app) => `the database of ${app}: the state of ${taken} has no such Assistant`),
    ...nobody(places).map((app) => `the files of ${app}: the state of ${taken} has no such Assistant`),
    ...none(had).map((id) => `the database of ${id}: there was none at that moment`),
    ...none(places).map((id) => `the files of ${id}: there were none at that moment`),
    ...inputsWithout(tenant),
    ...(sets === 0 ? [] : [`${sets} S3 credential sets of its own: somebody has to enter them again`]),
    ...(at === undefined || at <= taken
      ? []
      : [`changes to the specs of the Capsule and its Assistants after ${taken}`]),
    ...(notice === undefined ? [] : [`objects: ${notice}`]),
    ...NEVER,
  ];
}

/** If the Secret of a sealed value is gone, the value stays with the Assistant that it was sealed for. */
export function inputsWithout({
  assistants,
  inputs,
}: Pick<Tenant, 'assistants' | 'inputs'>): readonly string[] {
  const there = new Set(inputs.map(({ metadata }) => metadata.name));
  return assistants.flatMap(({ metadata, spec }) => {
    const bound = Object.entries<{ secretKeyRef?: { name?: string } }>(spec.storedInputs ?? {});
    return bound
      .filter(([, { secretKeyRef }]) => !there.has(secretKeyRef?.name ?? ''))
      .map(
        ([key, { secretKeyRef }]) =>
          `stored input ${key} of ${metadata.name}: Secret ${secretKeyRef?.name} did not exist, so the value has to be entered again`,
      );
  });
}
