import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { CHART } from '../../../../e2e/space/chart.ts';
import { finish } from '../../../../e2e/space/kube.ts';
import { forceFlags } from '../../../../e2e/space/release.ts';
import { lateWorkloads } from '../../../../e2e/space/rollout.ts';
import { type InstalledSpace, printed, settled } from './model.ts';

/** The Helm release of the running Space. */
export interface Release {
  /** The values that it was installed with. */
  readonly values: object;
  /** Upgrades it to these values, of which later ones override earlier ones, and waits for its pods. */
  upgrade(...values: readonly object[]): Promise<void>;
  /** Rolls back to the previous revision and waits for its pods. */
  rollBack(): Promise<void>;
}

/** `directory` is for files of values. */
export async function openRelease(
  {
    cluster,
    kube,
    space,
  }: Pick<InstalledSpace, 'cluster' | 'kube'> & { readonly space: Pick<InstalledSpace['space'], 'names'> },
  directory: string,
): Promise<Release> {
  const { space: name, namespace, servicesNamespace, systemNamespace } = space.names;
  const program = await cluster.tool('helm');
  const helm = (...args: readonly string[]) =>
    printed(program, ['--kubeconfig', cluster.kubeconfig, '-n', namespace, ...args]);
  const force = await forceFlags((...args) => finish(program, args));
  const { info } = JSON.parse(await helm('status', name, '-o', 'json')) as { info: { description: string } };
  const rolledOut = () =>
    settled('all is rolled out', async () => {
      const late = await lateWorkloads(kube, [servicesNamespace, systemNamespace]);
      if (late.length > 0) throw new Error(late.map(({ metadata }) => metadata.name).join(', '));
      return true;
    });
  return {
    values: JSON.parse(await helm('get', 'values', name, '-o', 'json')),
    async upgrade(...values) {
      const files = values.map((_, at) => join(directory, `values-${at}`));
      await Promise.all(values.map((one, at) => writeFile(files[at] ?? '', JSON.stringify(one))));
      const flags = ['--reset-values', '--skip-crds', ...force, '--description', info.description];
      await helm('upgrade', name, CHART, ...flags, ...files.flatMap((file) => ['-f', file]));
      await rolledOut();
    },
    async rollBack() {
      await helm('rollback', name, ...force);
      await rolledOut();
    },
  };
}
