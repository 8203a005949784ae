import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { type Cluster, S3_SERVER } from '../cluster/index.ts';
import type { Step } from '../progress/index.ts';
import { CHART, IMAGE_VALUES } from './chart.ts';
import { referenceOf } from './images.ts';
import { type Finished, finish, type Kube } from './kube.ts';
import { lateWorkloads, rolledOut } from './rollout.ts';

/** One Space on a cluster, and the namespace of its Capsules. */
export interface Release {
  readonly space: string;
  readonly namespace: string;
}

/** What one is given beyond the values of every Space of `npm run up`. */
export interface ReleaseExtras {
  readonly values: object;
  /** The objects that these name, in namespaces that the chart creates. */
  readonly secrets: readonly object[];
}

/** A second replica of each component is useless on a single node; the chart's default is two. */
const SINGLE = ['operator', 'dbBroker', 'objectStore', 'egress', 'console'].map(
  (part) => `${part}.replicas=1`,
);

const replicasOn = ({ furtherNodes = [] }: Cluster) => (furtherNodes.length > 0 ? [] : SINGLE);

/** The user who signs in to the console of a Space of `npm run up`, and may see all of it. */
export const ADMINISTRATOR = 'console-admin';
const administrators = (namespace: string) => [
  'people.administrators[0].kind=ServiceAccount',
  `people.administrators[0].name=${ADMINISTRATOR}`,
  `people.administrators[0].namespace=${namespace}`,
  'people.wholeCluster=true',
];

/** Installs or upgrades the release if chart or values differ from what is installed, and waits for its pods. */
export async function installRelease(
  cluster: Cluster,
  kube: Kube,
  release: Release,
  references: ReadonlyMap<string, string>,
  step: Step,
  more: ReleaseExtras = { values: {}, secrets: [] },
): Promise<void> {
  const { space, namespace } = release;
  const program = await cluster.tool('helm');
  const helm = (...args: string[]) =>
    finish(program, ['--kubeconfig', cluster.kubeconfig, '--namespace', namespace, ...args]);

  const images = IMAGE_VALUES.map((value) => `${value}=${imageOf(references, value)}`);
  const objects = Object.entries(more.values).map(([name, value]) => `${name}=${JSON.stringify(value)}`);
  // A node knows what was built for it by tags alone, and the S3 server's image is taken by one everywhere.
  const values = [...images, 'image.allowTags=true', ...replicasOn(cluster), ...administrators(namespace)];
  const description = await descriptionOf([...values, ...objects]);
  const installed = await installedRelease(helm, space);
  const places = [`${space}-services`, `${space}-system`];
  const same = installed?.status === 'deployed' && installed.description === description;
  // A change by hand since then that does not work is undone, too.
  if (same && (await lateWorkloads(kube, places)).length === 0) step.note('runs already');
  else {
    step.note('installing the chart');
    await endHalfDone(helm, space, installed?.status);
    await prepare(kube, release);
    const set = [
      ...objects.flatMap((object) => ['--set-json', object]),
      ...values.flatMap((value) => ['--set', value]),
    ];
    const flags = ['--skip-crds', '--description', description, ...(await forceFlags(helm))];
    must(await helm('upgrade', '--install', space, CHART, ...flags, ...set));
    if (more.secrets.length > 0) await kube.apply(...more.secrets);
    await rolledOut(kube, places, step);
  }
}

/** The S3 server's is no image of ours. */
export const imageOf = (
  references: ReadonlyMap<string, string>,
  value: (typeof IMAGE_VALUES)[number],
): string => (value === 's3.image' ? `${S3_SERVER.name}:${S3_SERVER.tag}` : referenceOf(references, value));

interface Installed {
  readonly status: string;
  readonly description: string;
}

type Helm = (...args: string[]) => Promise<Finished>;

async function installedRelease(helm: Helm, space: string): Promise<Installed | undefined> {
  const { code, stdout } = await helm('status', space, '--output', 'json');
  return code === 0 ? (JSON.parse(stdout) as { info: Installed }).info : undefined;
}

/** Helm 4 refuses to overwrite changes by hand unless told otherwise; Helm 3 overwrites them. */
export async function forceFlags(helm: Helm): Promise<readonly string[]> {
  const { stdout } = await helm('version', '--short');
  return stdout.startsWith('v3.') ? [] : ['--force-conflicts'];
}

/** A command that was killed leaves a release that Helm considers to be in progress. */
export async function endHalfDone(helm: Helm, space: string, status: string | undefined): Promise<void> {
  if (status === 'pending-install') must(await helm('uninstall', space, '--no-hooks'));
  else if (status?.startsWith('pending-') === true) must(await helm('rollback', space));
}

/**
 * Creates what the chart leaves to the installer: definitions that are newer than the cluster's, and the namespace.
 */
async function prepare(kube: Kube, { space, namespace }: Release): Promise<void> {
  must(await kube.run(['apply', '--server-side', '--force-conflicts', '-f', join(CHART, 'crds')]));
  await kube.apply({
    apiVersion: 'v1',
    kind: 'Namespace',
    metadata: {
      name: namespace,
      labels: { 'platform.space/space': space, 'pod-security.kubernetes.io/enforce': 'restricted' },
    },
  });
}

function must({ code, stdout, stderr }: Finished): void {
  if (code !== 0) throw new Error((stderr || stdout).trim());
}

/** Identifies what is installed by its content, chart and values, in the description of the release's revision. */
async function descriptionOf(values: readonly string[]): Promise<string> {
  const hash = createHash('sha256').update(JSON.stringify(values));
  const entries = await readdir(CHART, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  for (const file of files.sort()) hash.update(`\0${relative(CHART, file)}\0`).update(await readFile(file));
  return `development, ${hash.digest('hex').slice(0, 16)}`;
}
