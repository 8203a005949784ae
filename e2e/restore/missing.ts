/** What a restore of a whole Space did not bring back, in sentences for the person who has to handle it. */
import type { KubeObject } from '../space/kube-object.ts';
import { inputsWithout } from './capsule/missing.ts';
import { idOf } from './capsule/tenant.ts';
import type { Exchanged } from './exchange.ts';
import { RESTORING } from './marks.ts';
import type { State } from './state.ts';
import type { Compared } from './whereabouts.ts';

export interface Brought extends Exchanged, Compared {
  readonly state: State;
  readonly at: string | undefined;
  /** What the copy of the bucket reports about itself. */
  readonly notice: string | undefined;
}

/** These are never restored: they are created or issued again, or are not part of a Space. */
const NEVER = [
  'URLs, tokens and principals: they are new, and the old ones open nothing',
  'who installed Assistants and who approved them: it is whoever restored them',
  'Secrets in the namespace of Capsules that are no stored inputs, and Helm’s records',
];

const nameOf = ({ metadata }: KubeObject) => metadata.name;

export function notRestored(brought: Brought): readonly string[] {
  const { state, at, notice, unknown, setBack } = brought;
  const { taken } = state;
  return [
    ...besideIn(brought),
    ...differencesOf(brought),
    ...unknown.map(
      ({ capsule, broker }) =>
        `the principal of Capsule ${capsule}: ${broker} had no such Capsule at that moment; its Secrets in the namespace of the operator are of no use`,
    ),
    ...setBack.map(
      (capsule) =>
        `S3 credential sets of Capsule ${capsule}: they are of before a change, and stay closed until somebody says restore accept ${capsule} or restore discard ${capsule} (docs/custody.md)`,
    ),
    ...halfRestored(peoplesIn(state).capsules),
    ...inputsWithout(peoplesIn(state)),
    ...(at === undefined || at <= taken
      ? []
      : [`what was changed in the specs of Capsules and Assistants after ${taken}`]),
    ...(notice === undefined ? [] : [`objects: ${notice}`]),
    ...NEVER,
  ];
}

/** The backup contains none of these databases: another server has them, or has lost them. */
function besideIn({ beside, lost, moves }: Brought): readonly string[] {
  const servers = [...new Set(beside.map(({ server }) => server))];
  const on = (server: string) => beside.filter((one) => one.server === server).map(({ capsule }) => capsule);
  return [
    ...servers.map(
      (server) =>
        `the databases of Capsules on server ${server}, which has a backup of its own: they are as it has them now (${on(server).join(', ')})`,
    ),
    ...lost.map(
      (capsule) =>
        `databases of Capsule ${capsule}: its server does not have them, and they were given up. Delete the Capsule and apply it anew, and it begins with none`,
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
    return `the data of Capsule ${name}: they were being put back at that moment (${mark}), and its Assistants have no pods. Give that restore again, or take annotation ${RESTORING} off to go on with what is there`;
  });

/** Differences between the registry of that moment and the state, which was taken before it. */
function differencesOf({ state, registered, lost }: Brought): readonly string[] {
  const { capsules, assistants } = peoplesIn(state);
  const idsIn = (capsule: string) => assistants.filter(({ spec }) => spec.capsule === capsule).map(idOf);
  const found = new Map(registered.map(({ capsule, apps }) => [capsule, apps]));
  const names = capsules.map(nameOf);
  return [
    ...registered
      .filter(({ capsule }) => !names.includes(capsule))
      .map(
        ({ capsule }) =>
          `Capsule ${capsule}: its data is there, and the state of ${state.taken} has no such Capsule, or had it in deletion with its data kept. Apply it anew to have its data`,
      ),
    ...names.flatMap((capsule) => {
      const [ids, apps] = [idsIn(capsule), found.get(capsule) ?? []];
      return [
        ...apps
          .filter((app) => app !== '' && !ids.includes(app))
          .map(
            (app) =>
              `Assistant ${app} in Capsule ${capsule}: its database is there, and the state of ${state.taken} has no such Assistant`,
          ),
        ...ids
          .filter((id) => !apps.includes(id) && !lost.includes(capsule))
          .map((id) => `the database of ${id} in Capsule ${capsule}: there was none at that moment`),
      ];
    }),
  ];
}
