/** What everybody is given of each section of a page: its content, an act, or a sentence that says what it takes. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { manifest } from '../operator/testing/manifest.ts';
import type { Browser } from './testing/browser.ts';
import { accountOf, untilInForce } from './testing/in-force.ts';
import {
  CAPSULE_ADMINS,
  DEPLOYERS,
  type Gathering,
  gather,
  PEOPLE,
  type Person,
  READERS,
  SIGNED_IN,
} from './testing/people.ts';
import { type Given, sectionsOf } from './testing/sections.ts';
import { condition, input } from './testing/subjects.ts';

/** A warden reads Capsules, Assistants, and the objects around them in the cluster. */
type Guest = Person | 'warden';
const GUESTS: readonly Guest[] = [...PEOPLE, 'warden'];
const EVERYBODY: readonly Guest[] = [...SIGNED_IN, 'warden'];
const SEERS: readonly Guest[] = [...READERS, 'warden'];
const KEEPERS: readonly Guest[] = [...CAPSULE_ADMINS, 'keeper'];

/** What people get of a section; a person who sees the page and is not named here does not get it at all. */
type Section = Partial<Record<Given, readonly Guest[]>>;

const without = (people: readonly Guest[], ...others: readonly Guest[]) =>
  people.filter((person) => !others.includes(person));
const seen: Section = { shown: SEERS };
/** Something around Capsules, for which no role of the chart has a right. */
const around: Section = { shown: ['warden'], withheld: SIGNED_IN };
const act = (of: readonly Guest[]): Section => ({ acts: of, shown: without(SEERS, ...of) });

const QUOTA = { Database: seen, Files: seen, Assistants: seen };
const under = (chapter: string, cards: Readonly<Record<string, Section>>) =>
  Object.fromEntries(Object.entries(cards).map(([name, section]) => [`${chapter} / ${name}`, section]));

/** What the page of every Capsule has, suspended or not. */
const CAPSULE: Readonly<Record<string, Section>> = {
  Conditions: seen,
  'Quota and usage': seen,
  ...under('Quota and usage', { ...QUOTA, Assistants: act(CAPSULE_ADMINS) }),
  Assistants: seen,
  'Granted integrations': seen,
  'Storage of its files': { shown: CAPSULE_ADMINS },
  Settings: seen,
  History: { shown: without(SEERS, 'clerk'), withheld: ['clerk'] },
};

/** A section of a page that has no row here fails the test. */
const PAGES: Readonly<Record<string, Readonly<Record<string, Section>>>> = {
  '/': {
    '': seen,
    'To repair': seen,
    'To repair / Assistant post': act(CAPSULE_ADMINS),
    'To repair / Assistant asking': act(['clerk']),
    Suspended: seen,
    'Suspended / Capsule archive': act(CAPSULE_ADMINS),
    'Suspended / Assistant garden': act(DEPLOYERS),
    'The same with kubectl': seen,
  },
  '/capsules': { '': seen, 'The same with kubectl': seen },
  '/capsules/household': {
    '': seen,
    ...CAPSULE,
    Suspend: { acts: CAPSULE_ADMINS },
    'The same with kubectl': seen,
  },
  // A suspended Capsule has the button to resume it at the top.
  '/capsules/archive': {
    '': act(CAPSULE_ADMINS),
    ...CAPSULE,
    'The same with kubectl': seen,
  },
  '/capsules/household/assistants/post': {
    '': seen,
    Conditions: seen,
    'What it may do': seen,
    'Changes from the running manifest': { shown: ['warden'], withheld: READERS },
    'Installation and approval': { acts: CAPSULE_ADMINS, withheld: without(SEERS, ...CAPSULE_ADMINS) },
    'Stored inputs': { shown: ['clerk'], withheld: without(SEERS, 'clerk') },
    'Stored inputs / Key of your bank': act(['clerk']),
    Manifest: seen,
    Usage: seen,
    ...under('Usage', {
      'Its database': seen,
      'Its own files': seen,
      'Usage of the whole Capsule, whose Assistants share its quota': seen,
      ...QUOTA,
    }),
    History: { shown: without(SEERS, 'clerk'), withheld: ['clerk'] },
    Suspend: { acts: DEPLOYERS },
    'The same with kubectl': seen,
  },
  '/sandbox': {
    '': { shown: EVERYBODY },
    'Verdict of the gate': { shown: EVERYBODY },
    Nodes: around,
    Probes: around,
    Programs: around,
    Certificates: around,
    'The same with kubectl': { shown: EVERYBODY },
  },
  '/diagnostics': {
    '': { acts: EVERYBODY },
    'What is in it': { shown: EVERYBODY },
    'What is never in it': { shown: EVERYBODY },
    'The same with kubectl': { shown: EVERYBODY },
  },
  '/capsules/household/credentials': {
    '': { shown: KEEPERS },
    Sets: { shown: KEEPERS },
    'New set': { acts: KEEPERS },
    'The same with kubectl': { shown: KEEPERS },
  },
};

const RBAC = '/apis/rbac.authorization.k8s.io/v1';
const list = (group: string, resource: string) => ({
  apiGroups: [group],
  resources: [resource],
  verbs: ['list'],
});
const AROUND = {
  Nodes: list('', 'nodes'),
  Probes: list('', 'pods'),
  Programs: list('apps', 'deployments'),
};

let all: Gathering;
let as: Readonly<Record<Guest, Browser>>;

/** Somebody with rights in the Space's namespace, and others in the whole cluster. */
async function guest(name: string, here: readonly object[], everywhere: readonly object[]): Promise<Browser> {
  const { environment } = all.whole;
  const token = await environment.person(name, here);
  const metadata = { name: `${name}-looks-around` };
  await environment.policyServer.create(`${RBAC}/clusterroles`, { metadata, rules: everywhere });
  await environment.policyServer.create(`${RBAC}/clusterrolebindings`, {
    metadata,
    roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', ...metadata },
    subjects: [{ kind: 'ServiceAccount', name, namespace: 'home' }],
  });
  await untilInForce(environment.policyServer, { user: accountOf(name, 'home') }, everywhere, 'home');
  return environment.signedInWith(token, all.origin);
}

beforeAll(async () => {
  all = await gather();
  const { made } = all;
  const suspended = [condition('Ready', 'False', 'Suspended')];
  await made.capsule('archive', { suspend: true }, suspended);
  await made.assistant('garden', { capsule: 'household', suspend: true }, suspended);
  const asks = manifest('asking', { stored_inputs: { bank: input() } });
  await made.assistant('asking', { capsule: 'household', manifest: asks }, [
    condition('Ready', 'False', 'InputsMissing'),
  ]);
  const read = {
    apiGroups: ['platform.space'],
    resources: ['capsules', 'assistants'],
    verbs: ['get', 'list'],
  };
  const running = [
    { apiGroups: ['apps'], resources: ['deployments'], verbs: ['get'] },
    { apiGroups: [''], resources: ['configmaps'], verbs: ['get'] },
  ];
  const warden = await guest(
    'warden',
    [read, list('events.k8s.io', 'events')],
    [...Object.values(AROUND), list('node.k8s.io', 'runtimeclasses'), ...running],
  );
  as = { ...all.as, warden };
});
afterAll(() => all?.close());

/** What is no page with sections. */
const NO_PAGE = /^\/(?:assets|healthz|live|sign-in|diagnostics\/archive)/;

describe('a section of a page', () => {
  it('has a row here, for every page of the console', () => {
    const routes = all.routes.flatMap((route) => (route.startsWith('GET ') ? [route.slice(4)] : []));
    const pages = routes.filter((path) => !NO_PAGE.test(path));
    const shapes = pages.map((path) => new RegExp(`^${path.replace(/:[a-z]+/g, '[a-z]+')}$`));
    expect(pages.length).toBeGreaterThan(6);
    expect(shapes.filter((shape) => !Object.keys(PAGES).some((path) => shape.test(path)))).toEqual([]);
  });

  it.each(Object.entries(PAGES))(
    'of %s is shown to people with the right, and to all others as defined here',
    async (path, wanted) => {
      for (const person of GUESTS) {
        const page = await as[person].get(path);
        const isPage = page.status === 200 && page.path === path;
        const given = isPage ? sectionsOf(page.html) : {};
        const expected = Object.entries(wanted).flatMap(([name, section]) =>
          Object.entries(section)
            .filter(([, people]) => people.includes(person))
            .map(([what]) => [name, what]),
        );
        expect(given, person).toEqual(Object.fromEntries(expected));
      }
    },
  );

  it.each(Object.entries(AROUND))(
    'Sandbox shows %s with the right on it, and with no other',
    async (name, rule) => {
      const somebody = await guest(`of-${rule.resources[0]}`, [], [rule]);
      const given = sectionsOf((await somebody.get('/sandbox')).html);
      const shown = Object.keys(AROUND).filter((one) => given[one] === 'shown');
      expect(shown).toEqual([name]);
    },
  );
});
