import { access, constants, mkdir } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { dockerAnswers, dockerBuild, dockerDigest } from './docker.ts';
import { replaceFile } from './files.ts';
import { imageBuilder } from './images/builder.ts';
import type { BringUp, Cluster, ImageSource } from './model.ts';
import { ClusterProblem } from './problem.ts';
import { clusterDirectory, kubeconfigPath, readRecord, writeRecord } from './record.ts';
import { run } from './run.ts';
import { findTool } from './tools.ts';

/** Your own cluster: it must answer, and nothing of it is created or removed here. */
export async function bringUp(options: BringUp): Promise<Cluster> {
  const { name, kubeconfig, imageRegistry, images = [], steps } = options;
  await steps.run('your cluster', async (step) => {
    if (kubeconfig === undefined)
      throw new ClusterProblem('No kubeconfig is given.', 'Say which with --kubeconfig FILE.');
    const file = resolve(kubeconfig);
    await access(file, constants.R_OK).catch((cause: unknown) => {
      throw new ClusterProblem(`${file} cannot be read.`, 'Name a kubeconfig with --kubeconfig FILE.', {
        cause,
      });
    });
    if (images.length > 0 && imageRegistry === undefined) throw noRegistry();
    const kubectl = await findTool('kubectl', clusterDirectory(name));
    step.note(`asking ${file}`);
    const ask = (...args: readonly string[]) => run([kubectl, `--kubeconfig=${file}`, ...args]);
    await ask('get', '--raw=/readyz', '--request-timeout=10s').catch((cause: unknown) => {
      throw new ClusterProblem(`The cluster of ${file} does not answer.`, 'Check it with kubectl.', {
        cause,
      });
    });
    await mkdir(clusterDirectory(name), { recursive: true });
    // The copy contains everything: no paths of certificates, and only one context.
    const whole = await ask('config', 'view', '--raw', '--flatten', '--minify');
    await replaceFile(kubeconfigPath(name), whole, 0o600);
    await writeRecord(name, {
      provider: 'kubeconfig',
      kubeconfig: kubeconfigPath(name),
      ...(imageRegistry === undefined ? {} : { imageRegistry }),
    });
    step.note('');
  });
  return cluster(name, imageRegistry);
}

export async function open(name: string): Promise<Cluster | undefined> {
  const record = await readRecord(name);
  return record?.provider === 'kubeconfig' ? cluster(name, record.imageRegistry) : undefined;
}

function cluster(name: string, registry: string | undefined): Cluster {
  const directory = clusterDirectory(name);
  return {
    name,
    provider: 'kubeconfig',
    kubeconfig: kubeconfigPath(name),
    tool: (tool) => findTool(tool, directory),
    async loadImages(images, steps) {
      if (registry === undefined) throw noRegistry();
      const log = join(directory, 'images.log');
      const push = (await dockerAnswers()) ? pushWithDocker : pushWithBuildah;
      return steps.run(`push images to ${registry}`, async (step) => {
        step.explain(log);
        const references = new Map<string, string>();
        for (const image of images)
          references.set(image.name, await step.run(image.name, () => push(image, registry, log)));
        return references;
      });
    },
  };
}

const noRegistry = () =>
  new ClusterProblem(
    'Your cluster cannot see images that are built here.',
    'Name a registry that you may push to and its nodes can pull from: --image-registry HOST/PATH.',
  );

async function pushWithDocker(image: ImageSource, registry: string, log: string): Promise<string> {
  const reference = await dockerBuild(image, log, registry);
  await run(['docker', 'push', reference], { log });
  return `${reference}@${await dockerDigest(reference)}`;
}

async function pushWithBuildah(image: ImageSource, registry: string, log: string): Promise<string> {
  return imageBuilder(log).push(image, registry);
}
