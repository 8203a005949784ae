/**
 * Restores a Space from a backup into a cluster where it does not exist: keys, volumes, release, credentials,
 * Capsules.
 */
import type { Step } from '../progress/index.ts';
import type { Finished, Kube } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { endHalfDone, forceFlags } from '../space/release.ts';
import { rolledOut } from '../space/rollout.ts';
import { refuseFuture } from './copies.ts';
import { asDrill, DRILL_LEAVES_OUT, DRILL_VALUES, requireServersOfItsOwn } from './drill.ts';
import { exchangeCredentials } from './exchange.ts';
import { fill, removePod } from './fill.ts';
import { asRestored } from './marks.ts';
import { notRestored } from './missing.ts';
import type { Restore } from './model.ts';
import {
  authorities,
  claimOf,
  databasePod,
  destination,
  destinationSecret,
  objectsPod,
  type Rendered,
  statefulSet,
} from './pods.ts';
import { checkBackup, type States } from './preflight/index.ts';
import { RestoreProblem } from './problem.ts';
import { merge, provisionedIn } from './state.ts';
import { compareServers } from './whereabouts.ts';

/** What was restored, and up to which moment. */
export interface Restored {
  readonly state: string;
  readonly database: string;
  readonly objects: string;
  readonly capsules: number;
  readonly assistants: number;
  /** Databases of Capsules that the registry knows but that have no Capsule object. */
  readonly without: readonly string[];
  /** Capsules whose own S3 credentials are closed, since they are older than a change. */
  readonly setBack: readonly string[];
  /** Capsules whose credentials stay in use nevertheless, because the person who restores said so. */
  readonly accepted: readonly string[];
  readonly notRestored: readonly string[];
}

/** Marks the services' namespace as being restored, with the moment, so that an interrupted run is continued. */
const MARK = 'platform.space/restoring';
const LATEST = 'the end of the backup';

export async function restoreSpace(about: Restore): Promise<Restored> {
  const { steps, at, drill } = about;
  refuseFuture(at, about.now());
  const objects = await steps.run('render the chart', () => render(about));
  const isBegun = await steps.run('check whether the Space exists', () =>
    refuseExistingSpace(about, objects),
  );
  const state = await checkBackup(about, objects, isBegun);
  await steps.run('create the namespaces', () => prepare(about, objects));
  const found = merge(state.then, state.newest);
  await steps.run('restore the keys', (step) => putKeys(about, state, found, step));
  const [database = '', bucket = ''] = await Promise.all([
    steps.run('restore the database', (step) =>
      fillOnce(about, 'database', databasePod(objects, at), statefulSet(objects, 'postgres'), step),
    ),
    steps.run('restore the objects', (step) =>
      fillOnce(about, 'objects', objectsPod(objects, at), statefulSet(objects, 's3'), step),
    ),
  ]);
  await steps.run('install the release', () => install(about));
  const compared = await steps.run('compare the registry with its servers', (step) =>
    compareServers({ ...about, capsules: provisionedIn(state.then), isFilled: isEmbedded(objects) }, step),
  );
  const exchanged = await steps.run('replace every credential', (step) => exchangeCredentials(about, step));
  const places = [`${about.space}-services`, `${about.space}-system`];
  await steps.run('wait for the pods of the Space', (step) => rolledOut(about.kube, places, step));
  return steps.run('apply Capsules and Assistants', async () => {
    const people = await applyPeoples(about, drill ? asDrill(found) : found);
    await unmark(about);
    const { registered, setBack, accepted } = exchanged;
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
      without: registered.map(({ capsule }) => capsule).filter((capsule) => !names.has(capsule)),
      setBack,
      accepted,
      notRestored: [
        ...(drill ? [DRILL_LEAVES_OUT] : []),
        ...notRestored({
          ...exchanged,
          ...compared,
          state: state.then,
          at,
          notice: noticeIn(bucket),
        }),
      ],
    };
  });
}

/** What the program of the bucket reports as missing in what it restored. */
function noticeIn(report: string): string | undefined {
  return report.startsWith('{') ? JSON.parse(report).notice : undefined;
}

const isEmbedded = (objects: Rendered) => statefulSet(objects, 'postgres') !== undefined;

async function render({ helm, parse, space, chart, values, drill }: Restore): Promise<Rendered> {
  const { code, stdout, stderr } = await helm('template', space, chart, ...flags(values));
  if (code !== 0) throw new RestoreProblem(`the chart does not accept these values: ${stderr.trim()}`);
  const objects = parse(stdout);
  destinationSecret(objects); // refuses values without a backup
  if (drill) requireServersOfItsOwn(objects);
  return objects;
}

const flags = (values: readonly string[]) => values.flatMap((file) => ['--values', file]);

/** What the mark says of a restore; one that was begun as a drill is not continued as another. */
const markOf = ({ at, drill }: Pick<Restore, 'at' | 'drill'>) =>
  `${at ?? LATEST}${drill ? ' (a drill)' : ''}`;

/**
 * A Space that exists, or whose volumes are left, is not overwritten. Returns whether this same restore was begun
 * before.
 */
export async function refuseExistingSpace(
  about: Pick<Restore, 'kube' | 'helm' | 'space' | 'at' | 'drill'>,
  objects: Rendered,
): Promise<boolean> {
  const { kube, helm, space } = about;
  const services = `${space}-services`;
  const mark = (await kube.get('namespace', services))?.metadata.annotations?.[MARK];
  if (mark !== undefined) {
    if (mark !== markOf(about))
      throw new RestoreProblem(
        `another restore of ${space}, to ${mark}, was interrupted: run that one again, or delete the namespaces ${services} and ${space}-system and start over`,
      );
    return true;
  }
  if ((await helm('status', space)).code === 0)
    throw new RestoreProblem(
      `the release ${space} is installed, and a restore does not overwrite a Space. Uninstall it first, or restore into another cluster`,
    );
  for (const name of ['postgres', 's3']) {
    const set = statefulSet(objects, name);
    const claim = set && claimOf(set).metadata.name;
    if (claim !== undefined && (await kube.get('persistentvolumeclaim', claim, services)) !== undefined)
      throw new RestoreProblem(
        `volume claim ${services}/${claim} of an earlier Space still exists: install the chart to use its data, or delete the claim if the data is lost`,
      );
  }
  return false;
}

/** Creates the namespaces with the marks by which Helm adopts them. */
async function prepare(about: Restore, objects: Rendered): Promise<void> {
  const { kube, space, namespace } = about;
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
    await kube.apply(owned(one, one.metadata.name === services ? { [MARK]: markOf(about) } : {}));
  for (const one of authorities(objects)) await kube.apply(owned(one));
  await kube.apply(destination(about, objects, services));
}

type Filled = 'database' | 'objects';

/**
 * The result of filling a volume, if an earlier command has recorded it: from then on the Space may use the volume.
 */
async function noteOf({ kube, space }: Restore, what: Filled): Promise<string | undefined> {
  return (await kube.get('namespace', `${space}-services`))?.metadata.annotations?.[`${MARK}-${what}`];
}

/**
 * Restores the Secrets of the Space's own namespaces, unless that was done before: they may have been exchanged
 * since.
 */
async function putKeys(
  about: Restore,
  { newest }: States,
  found: readonly KubeObject[],
  step: Step,
): Promise<void> {
  const { kube, namespace } = about;
  if ((await noteOf(about, 'database')) !== undefined) return step.note('an earlier run did this');
  const isKey = ({ metadata }: KubeObject) => metadata.namespace !== namespace;
  // The key of the backup's bucket is the one that was just given, since that is known to work.
  const given = new Set(
    (await kube.list('secret', newest.namespaces.services)).map(({ metadata }) => metadata.name),
  );
  const isGiven = ({ metadata }: KubeObject) =>
    metadata.namespace === newest.namespaces.services && given.has(metadata.name);
  await applyAll(
    kube,
    found.filter((object) => isKey(object) && !isGiven(object)),
  );
}

async function fillOnce(
  about: Restore,
  what: Filled,
  pod: KubeObject | undefined,
  set: KubeObject | undefined,
  step: Step,
): Promise<string> {
  const { kube, space } = about;
  const known = await noteOf(about, what);
  if (known !== undefined) step.note('an earlier run did this');
  const said = known ?? (await fill(about, pod, set));
  const note = `${MARK}-${what}=${said}`;
  // This is recorded before the pod is deleted, so that no later command fills the volume again.
  must(await kube.run(['annotate', '--overwrite', 'namespace', `${space}-services`, note]));
  if (pod !== undefined) await removePod(kube, pod);
  return said;
}

/** Applies what people keep in the release's namespace. */
export async function applyPeoples(
  { kube, namespace }: Pick<Restore, 'kube' | 'namespace'>,
  found: readonly KubeObject[],
): Promise<readonly KubeObject[]> {
  const people = found.filter(({ metadata }) => metadata.namespace === namespace);
  await applyAll(kube, people);
  return people;
}

const AT_ONCE = 50;

async function applyAll(kube: Kube, objects: readonly KubeObject[]): Promise<void> {
  for (let from = 0; from < objects.length; from += AT_ONCE)
    await kube.apply(...objects.slice(from, from + AT_ONCE).map((object) => asRestored(object)));
}

async function install({ kube, helm, space, chart, values, drill }: Restore): Promise<void> {
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
      ...(drill ? DRILL_VALUES : []),
    ),
  );
}

function must({ code, stdout, stderr }: Finished): void {
  if (code !== 0) throw new RestoreProblem((stderr || stdout).trim());
}

async function unmark({ kube, space }: Restore): Promise<void> {
  const marks = [MARK, `${MARK}-database`, `${MARK}-objects`].map((mark) => `${mark}-`);
  must(await kube.run(['annotate', 'namespace', `${space}-services`, ...marks]));
}
