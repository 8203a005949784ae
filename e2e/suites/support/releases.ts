import { resolve } from 'node:path';
import { openCluster } from '../../cluster/index.ts';
import { finish } from '../../space/kube.ts';
import { isRolledOut } from '../../space/rollout.ts';
import { type Engines, enginesOfChart, placeOfEngines, startEngines } from '../engines.ts';
import { installed, kube, OWN_ENGINES } from './space.ts';
import { until } from './until.ts';

export const CHART = resolve(import.meta.dirname, '../../../charts/space');

/** Another Space on the suites' cluster; the namespace of its release has its name. */
export interface Release {
  readonly space: string;
  readonly namespace: string;
}

const ours: Release = { space: installed.space, namespace: installed.namespace };

const servicesOf = ({ space }: Release) => `${space}-services`;
const systemOf = ({ space }: Release) => `${space}-system`;

export async function helm({ namespace }: Release, args: readonly string[], values = ''): Promise<string> {
  const program = await (await openCluster(installed.cluster))?.tool('helm');
  if (program === undefined) throw new Error('no helm');
  const all = ['--kubeconfig', installed.kubeconfig, '-n', namespace, ...args];
  const { code, stdout, stderr } = await finish(program, all, values);
  if (code !== 0) throw new Error(stderr);
  return stdout;
}

/** The values that the suites' own Space was installed with, which name the images. */
export const valuesOfOurs = async () =>
  JSON.parse(await helm(ours, ['get', 'values', ours.space, '-o', 'json']));

type Values = Readonly<Record<string, object | undefined>>;

/** The same for another Space, without the servers that are ours alone. */
export async function valuesForAnother(): Promise<Values> {
  const { existingSecrets: _, postgres, objectStore, ...values } = await valuesOfOurs();
  return {
    ...values,
    postgres: { ...postgres, external: undefined },
    objectStore: { ...objectStore, external: undefined },
  };
}

/** Gives the suites' own Space other values, and waits until its Deployment that they are for has them. */
export async function upgradeOurs(
  values: object,
  { deployment, namespace }: { readonly deployment: string; readonly namespace: string },
): Promise<void> {
  const flags = ['--reset-values', '--skip-crds', '--force-conflicts', '-f', '-'];
  await helm(ours, ['upgrade', ours.space, CHART, ...flags], JSON.stringify(values));
  await until(`${deployment} to be rolled out`, async () => {
    const object = await kube.get('deployment', deployment, namespace);
    return object !== undefined && isRolledOut(object);
  });
}

export async function install(release: Release, values: object): Promise<void> {
  const { space, namespace } = release;
  const labels = { 'platform.space/space': space, 'pod-security.kubernetes.io/enforce': 'restricted' };
  await kube.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace, labels } });
  const args = ['install', space, CHART, '--skip-crds', '-f', '-'];
  await helm(release, args, JSON.stringify(values));
}

/** Another Space, with servers of the kind that ours has; answers where they are. */
export async function installLikeOurs(
  release: Release,
  change: (values: Values) => object = (values) => values,
): Promise<Engines> {
  const images = { postgres: installed.engines.postgres.image, s3: installed.engines.s3.image };
  const own = OWN_ENGINES === undefined ? undefined : await startEngines(kube, release.space, images);
  const values = await valuesForAnother();
  const { postgres, objectStore, existingSecrets } = own?.values ?? {};
  await install(
    release,
    change({
      ...values,
      existingSecrets,
      postgres: { ...values.postgres, ...postgres },
      objectStore: { ...values.objectStore, ...objectStore },
    }),
  );
  if (own === undefined) return enginesOfChart(servicesOf(release), images);
  await kube.apply(...own.secrets);
  return own.engines;
}

/** Uninstalls it, and deletes what it keeps, with other namespaces that went with it. Its Capsules are gone. */
export async function uninstall(release: Release, ...more: readonly string[]): Promise<void> {
  await helm(release, ['uninstall', release.space, '--ignore-not-found']);
  const namespaces = [
    ...[servicesOf(release), systemOf(release), release.namespace, placeOfEngines(release.space)],
    ...more,
  ];
  // Admission forgets the policies that guarded them a moment after they went.
  const rest = ['delete', 'namespace', ...namespaces, '--wait=false', '--ignore-not-found'];
  await until('the namespaces to be deleted', async () => (await kube.run(rest)).code === 0);
}
