/** Brings a Space up for the suites, on a cluster of their own, and takes it down after them (SPACE_KEEP=1 keeps it). */
import type { TestProject } from 'vitest/node';
import { takeDown } from '../cluster/index.ts';
import { createSteps } from '../progress/index.ts';
import { applyExamples, bringUpSpace } from '../space/index.ts';
import type { Installed } from './support/installed.ts';

const CLUSTER = 'space-test';
/** Beside the port of `npm run up`, so that tests and a running Space do not meet. */
const API_PORT = 17_444;

export async function setup(project: TestProject): Promise<() => Promise<void>> {
  const steps = createSteps();
  const running = await bringUpSpace({
    name: CLUSTER,
    apiPort: API_PORT,
    space: 'home',
    namespace: 'home',
    steps,
  });
  const { kube, namespace, ledgerImage } = running;
  await applyExamples(kube, namespace, ledgerImage);
  steps.close();
  project.provide('installed', {
    cluster: CLUSTER,
    kubectl: running.kubectl,
    kubeconfig: running.cluster.kubeconfig,
    space: running.space,
    namespace,
    image: ledgerImage,
  } satisfies Installed);
  return async () => {
    if (process.env['SPACE_KEEP'] === '1') return;
    const ending = createSteps();
    await takeDown(CLUSTER, { steps: ending });
    ending.close();
  };
}
