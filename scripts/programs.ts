/** A directory with etcd, kube-apiserver and kubectl as the native cluster builds them, for tests without a cluster. */
import { mkdir, rm, symlink } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import { built } from '../e2e/cluster/tools.ts';
import { createSteps } from '../e2e/progress/index.ts';

/** Builds them when the cache lacks them; `directory` is made anew. */
export async function testPrograms(directory: string): Promise<string> {
  const steps = createSteps();
  try {
    const entry = await steps.run('Kubernetes and etcd, built once', (step) => {
      const log = resolve(directory, '..', 'build-kubernetes.log');
      step.explain(log);
      return built('kubernetes', log);
    });
    await rm(directory, { recursive: true, force: true });
    await mkdir(directory, { recursive: true });
    const links = { etcd: 'etcd', helm: 'helm', kubectl: 'kubernetes', 'kube-apiserver': 'kubernetes' };
    for (const [name, program] of Object.entries(links))
      await symlink(join(entry, program), join(directory, name));
    return resolve(directory);
  } finally {
    steps.close();
  }
}
