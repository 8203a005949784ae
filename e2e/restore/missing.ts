/** What a restore of a whole Space did not bring back, in sentences for the person who has to handle it. */
import type { KubeObject } from '../space/kube-object.ts';
import { inputsWithout } from './capsule/missing.ts';
import { idOf } from './capsule/tenant.ts';
import type { Exchanged } from './exchange.ts';
import { RESTORING } from './marks.ts';
import type { State } from './state.ts';
import type { Compared } from './whereabouts.ts';

export interface RestoreFacts extends Exchanged, Compared {
  readonly state: State;
  readonly at: string | undefined;
  /** What the copy of the bucket reports about itself. */
  readonly notice: string | undefined;
}

/** These are never restored: they are created or issued again, or are not part of a Space. */
const NEVER = [
  'URLs, tokens and principals: new ones were issued, and the old ones give no access',
  'the names of those who installed and approved Assistants: the person who restored them is recorded instead',
  'Secrets in the namespace of Capsules that are no stored inputs, and Helm’s records of releases',
];

const nameOf = ({ metadata }: KubeObject) => metadata.name;

export function notRestored(brought: RestoreFacts): readonly string[] {
  const { state, at, notice, unknown, setBack } = brought;
  const { taken } = state;
  return [
    ...besideIn(brought),
    ...differencesOf(brought),
    ...unknown.map(
      ({ capsule, broker }) =>
        `the principal of Capsule ${capsule}: ${broker} had no such Capsule at that moment, so its Secrets in the namespace of the operator are useless`,
    ),
    ...setBack.map(
      (capsule) =>
        `S3 credential sets of Capsule ${capsule}: they were changed after that moment, and stay closed until somebody runs restore accept ${capsule} or restore discard ${capsule} (docs/custody.md)`,
    ),
    ...halfRestored(peoplesIn(state).capsules),
    ...inputsWithout(peoplesIn(state)),
    ...(at === undefined || at <= taken
      ? []
      : [`changes to the specs of Capsules and Assistants after ${taken}`]),
    ...(notice === undefined ? [] : [`objects: ${notice}`]),
    ...NEVER,
  ];
}

/** The backup contains none of these databases: another server has them, or has lost them. */
function besideIn({ beside, lost, moves }: RestoreFacts): readonly string[] {
  const servers = [...new Set(beside.map(({ server }) => server))];
  const on = (server: string) => beside.filter((one) => one.server === server).map(({ capsule }) => capsule);
  return [
    ...servers.map(
      (server) =>
        `databases on server ${server}, which has a backup of its own: they were left as they are there (Capsules ${on(server).join(', ')})`,
    ),
    ...lost.map(
      (capsule) =>
        `databases of Capsule ${capsule}: its server does not have them, and --accept-lost gave them up. Delete the Capsule and create it again to start with new ones`,
    ),
    ...moves,
  ];
}

function peoplesIn({ namespaces, objects }: State) {
  const all = objects.filter(({ metadata }) => metadata.namespace === namespaces.release);
  const of = (kind: string) => all.filter((one) => one.kind === kind);
  return { capsules: of('Capsule'), assistants: of('Assistant'), inputs: of('Secret') };
}

/**
 * They keep the annotation: without it, their Assistants would take the part that had been restored for all of their
 * data.
 */
const halfRestored = (capsules: readonly KubeObject[]) =>
  capsules.flatMap(({ metadata: { name, annotations } }) => {
    const mark = annotations?.[RESTORING];
    if (mark === undefined) return [];
    return `the data of Capsule ${name}: a restore of it was under way at that moment (${mark}), so its Assistants have no pods. Run that restore again, or remove the annotation ${RESTORING} to continue with the data that is there`;
  });

/** Differences between the registry of that moment and the state, which was taken before it. */
function differencesOf({ state, registered, lost }: RestoreFacts): readonly string[] {
  const { capsules, assistants } = peoplesIn(state);
  const idsIn = (capsule: string) => assistants.filter(({ spec }) => spec.capsule === capsule).map(idOf);
  const found = new Map(registered.map(({ capsule, apps }) => [capsule, apps]));
  const names = capsules.map(nameOf);
  return [
    ...registered
      .filter(({ capsule }) => !names.includes(capsule))
      .map(
        ({ capsule }) =>
          `Capsule ${capsule}: its data was restored, but the state of ${state.taken} has no such Capsule, or has it in deletion with its data retained. Create it again to use its data`,
      ),
    ...names.flatMap((capsule) => {
      const [ids, apps] = [idsIn(capsule), found.get(capsule) ?? []];
      return [
        ...apps
          .filter((app) => app !== '' && !ids.includes(app))
          .map(
            (app) =>
              `Assistant ${app} in Capsule ${capsule}: its database was restored, but the state of ${state.taken} has no such Assistant`,
          ),
        ...ids
          .filter((id) => !apps.includes(id) && !lost.includes(capsule))
          .map((id) => `the database of ${id} in Capsule ${capsule}: there was none at that moment`),
      ];
    }),
  ];
}
