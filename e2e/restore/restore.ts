/** A Space made again, in a cluster where it is not, from a backup: keys, volumes, release, credentials, Capsules. */
import { randomBytes } from 'node:crypto';
import type { Steps } from '../progress/index.ts';
import type { Finished, Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { endHalfDone, forceFlags } from '../space/release.ts';
import { rolledOut } from '../space/rollout.ts';
import { asApplied } from '../undelete/undelete.ts';
import { exchangeCredentials } from './exchange.ts';
import { fill, phaseOf, removePod } from './fill.ts';
import {
  claimOf,
  databasePod,
  destinationSecret,
  objectsPod,
  type Rendered,
  statefulSet,
  statePod,
} from './pods.ts';
import { RestoreProblem } from './problem.ts';
import { merge, openState, type State } from './state.ts';

export interface Restore {
  readonly kube: Kube;
  readonly helm: (...args: string[]) => Promise<Finished>;
  /** Where the chart is, and the values that the lost Space had. */
  readonly chart: string;
  readonly values: readonly string[];
  readonly space: string;
  readonly namespace: string;
  /** The moment that is restored; the end of the backup without it. */
  readonly at: string | undefined;
  /** Of the recipient that the state was sealed for. */
  readonly identities: readonly string[];
  /** Key of the bucket that the backup is in. */
  readonly key: { readonly access: string; readonly secret: string };
  readonly parse: (yaml: string) => Rendered;
  readonly steps: Steps;
  readonly signal: AbortSignal;
}

/** What was restored, and up to which moment. */
export interface Restored {
  readonly state: string;
  readonly database: string;
  readonly objects: string;
  readonly capsules: number;
  readonly assistants: number;
  /** Databases of Capsules that the registry knows and no Capsule is there for. */
  readonly without: readonly string[];
  /** Capsules whose own credentials went back to those of the backup: somebody looks whether they are still meant. */
  readonly setBack: readonly string[];
}

/** Says on the services' namespace that it is being restored, and to when: a run that was cut short is taken up. */
const MARK = 'platform.space/restoring';
const LATEST = 'the end of the backup';

export async function restoreSpace(about: Restore): Promise<Restored> {
  const { steps, at } = about;
  const objects = await steps.run('read the chart', () => render(about));
  await steps.run('look whether there is a Space', () => refuseLiving(about, objects));
  const state = await steps.run('open the state', () => fetchState(about, objects));
  await steps.run('make the namespaces', () => prepare(about, objects));
  const found = await steps.run('put the keys back', () => putKeys(about, state));
  const [database = '', bucket = ''] = await Promise.all([
    steps.run('put the database back', () =>
      fill(about, databasePod(objects, at), statefulSet(objects, 'postgres')),
    ),
    steps.run('put the objects back', () => fill(about, objectsPod(objects, at), statefulSet(objects, 's3'))),
  ]);
  await steps.run('install the release', () => install(about));
  const { registered, setBack } = await steps.run('exchange every credential', (step) =>
    exchangeCredentials(about, step),
  );
  const places = [`${about.space}-services`, `${about.space}-system`];
  await steps.run('wait for its pods', (step) => rolledOut(about.kube, places, step));
  return steps.run('apply Capsules and Assistants', async () => {
    const people = found.filter(({ metadata }) => metadata.namespace === about.namespace);
    await applyAll(about.kube, people.map(asApplied));
    await unmark(about);
    const count = (kind: string) => people.filter((one) => one.kind === kind).length;
    const names = new Set(
      people.filter(({ kind }) => kind === 'Capsule').map(({ metadata }) => metadata.name),
    );
    return {
      state: state.then.taken,
      database,
      objects: bucket,
      capsules: count('Capsule'),
      assistants: count('Assistant'),
      without: registered.filter((capsule) => !names.has(capsule)),
      setBack,
    };
  });
}

async function render({ helm, parse, space, chart, values }: Restore): Promise<Rendered> {
  const { code, stdout, stderr } = await helm('template', space, chart, ...flags(values));
  if (code !== 0) throw new RestoreProblem(`the chart does not take these values: ${stderr.trim()}`);
  const objects = parse(stdout);
  destinationSecret(objects); // refuses values without a backup
  return objects;
}

const flags = (values: readonly string[]) => values.flatMap((file) => ['--values', file]);

/** Nothing of a Space that lives, or whose volumes are left, is written over. */
async function refuseLiving({ kube, helm, space, at }: Restore, objects: Rendered): Promise<void> {
  const services = `${space}-services`;
  const mark = (await kube.get('namespace', services))?.metadata.annotations?.[MARK];
  if (mark !== undefined) {
    if (mark !== (at ?? LATEST))
      throw new RestoreProblem(
        `a restore of ${space} to ${mark} was begun: end that one, or delete the namespaces ${services} and ${space}-system and begin anew`,
      );
    return;
  }
  if ((await helm('status', space)).code === 0)
    throw new RestoreProblem(
      `the release ${space} is installed: a living Space is not restored over. Uninstall it first, or give another cluster`,
    );
  for (const name of ['postgres', 's3']) {
    const set = statefulSet(objects, name);
    const claim = set && claimOf(set).metadata.name;
    if (claim !== undefined && (await kube.get('persistentvolumeclaim', claim, services)) !== undefined)
      throw new RestoreProblem(
        `volume claim ${services}/${claim} is left of a Space: install the chart to go on with it, or delete it if it is lost`,
      );
  }
}

/** As Helm will find them, and takes them for its own. */
async function prepare(about: Restore, objects: Rendered): Promise<void> {
  const { kube, space, namespace, at } = about;
  const owner = {
    'meta.helm.sh/release-name': space,
    'meta.helm.sh/release-namespace': namespace,
  };
  const owned = (object: KubeObject, more = {}): KubeObject => ({
    ...object,
    metadata: {
      ...object.metadata,
      annotations: { ...object.metadata.annotations, ...more, ...owner },
    },
  });
  const labels = { 'platform.space/space': space, 'pod-security.kubernetes.io/enforce': 'restricted' };
  await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } });
  const services = `${space}-services`;
  for (const one of objects.filter(({ kind }) => kind === 'Namespace'))
    await kube.apply(owned(one, one.metadata.name === services ? { [MARK]: at ?? LATEST } : {}));
  for (const one of authorities(objects)) await kube.apply(owned(one));
  await kube.apply(destination(about, destinationSecret(objects), services));
}

/** Of servers of one's own, which the chart makes beside the programs that trust them. */
const authorities = (objects: Rendered) =>
  objects.filter(
    ({ kind, metadata }) =>
      kind === 'ConfigMap' && ['backup-ca', 'objectstore-s3-ca'].includes(metadata.name),
  );

const destination = ({ key }: Restore, name: string, namespace: string) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name, namespace },
  stringData: { 'access-key': key.access, 'secret-key': key.secret },
});

interface States {
  readonly then: State;
  readonly newest: State;
}

/**
 * By a pod in a namespace of its own, since where the bucket is may be reached from the cluster alone; nothing of the Space is
 * there before the state is open.
 */
async function fetchState(about: Restore, objects: Rendered): Promise<States> {
  const { kube, identities, space, namespace, at } = about;
  const place = `${space}-restore-${randomBytes(3).toString('hex')}`;
  const here = (object: KubeObject): KubeObject => ({
    ...object,
    metadata: { ...object.metadata, namespace: place },
  });
  const pod = here(statePod(objects));
  try {
    const labels = { 'pod-security.kubernetes.io/enforce': 'restricted' };
    await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: place, labels } });
    await kube.apply(
      ...authorities(objects).map(here),
      destination(about, destinationSecret(objects), place),
    );
    await removePod(kube, pod);
    await kube.apply(pod);
    await phaseOf(about, pod, ['Running']);
    const fetched = async (...moment: string[]) => {
      const program = ['node', '/app/backup.mjs', 'state', ...moment];
      const { code, stdout, stderr } = await kube.exec(place, pod.metadata.name, program);
      if (code !== 0) throw new RestoreProblem(`the state cannot be fetched: ${stderr.trim()}`);
      return openState(Buffer.from(stdout, 'base64'), identities);
    };
    const newest = await fetched();
    const then = at === undefined ? newest : await fetched('--at', at);
    if (newest.space !== space || newest.namespaces.release !== namespace)
      throw new RestoreProblem(
        `the backup is of the Space ${newest.space} in the namespace ${newest.namespaces.release}: restore it by these names`,
      );
    return { then, newest };
  } finally {
    await kube.remove('namespace', place);
  }
}

/** Answers all that is to be put back; of it what the Space's own namespaces hold is put back now. */
async function putKeys({ kube, namespace }: Restore, { then, newest }: States) {
  const found = merge(then, newest);
  const isKey = ({ metadata }: KubeObject) => metadata.namespace !== namespace;
  // The bucket's key is the one that was given just now, which opens it.
  const given = new Set(
    (await kube.list('secret', newest.namespaces.services)).map(({ metadata }) => metadata.name),
  );
  const isGiven = ({ metadata }: KubeObject) =>
    metadata.namespace === newest.namespaces.services && given.has(metadata.name);
  await applyAll(
    kube,
    found.filter((object) => isKey(object) && !isGiven(object)),
  );
  return found;
}

const AT_ONCE = 50;

async function applyAll(kube: Kube, objects: readonly KubeObject[]): Promise<void> {
  for (let from = 0; from < objects.length; from += AT_ONCE)
    await kube.apply(...objects.slice(from, from + AT_ONCE));
}

async function install({ kube, helm, space, chart, values }: Restore): Promise<void> {
  const { code, stdout } = await helm('status', space, '--output', 'json');
  await endHalfDone(helm, space, code === 0 ? JSON.parse(stdout).info.status : undefined);
  must(await kube.run(['apply', '--server-side', '--force-conflicts', '-f', `${chart}/crds`]));
  must(
    await helm(
      'upgrade',
      '--install',
      space,
      chart,
      '--skip-crds',
      ...(await forceFlags(helm)),
      ...flags(values),
    ),
  );
}

function must({ code, stdout, stderr }: Finished): void {
  if (code !== 0) throw new RestoreProblem((stderr || stdout).trim());
}

async function unmark({ kube, space }: Restore): Promise<void> {
  must(await kube.run(['annotate', 'namespace', `${space}-services`, `${MARK}-`]));
}
