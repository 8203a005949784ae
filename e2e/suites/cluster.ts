/** `node e2e/suites/cluster.ts up|down`: the suites' own cluster with a Space on it; `up` prints what `setup.ts` needs. SPACE_PROVIDER says where it comes from. */
import { takeDown } from '../cluster/index.ts';
import { createSteps } from '../progress/index.ts';
import { applyExamples, bringUpSpace } from '../space/index.ts';
import { readOptions } from '../space/options.ts';
import type { Installed } from './support/installed.ts';

const provider = process.env['SPACE_PROVIDER'];
/** One that is chosen has a cluster of its own name: a native one belongs to the machine, whoever made it. */
const CLUSTER = provider === undefined ? 'space-test' : `space-test-${provider}`;
/** The port differs from that of `npm run up`, so that tests and a running Space do not conflict. */
const API_PORT = '17444';

const steps = createSteps();
try {
  if (process.argv[2] === 'down') await takeDown(CLUSTER, { steps });
  else {
    const release = { space: 'home', namespace: 'home' };
    const chosen = provider === undefined ? [] : ['--provider', provider];
    const { cluster: wanted } = readOptions(['--api-port', API_PORT, ...chosen], CLUSTER);
    const running = await bringUpSpace({ ...wanted, ...release, steps });
    const { kube, namespace, ledgerImage } = running;
    await steps.run('examples', () => applyExamples(kube, release, ledgerImage));
    const installed: Installed = {
      cluster: CLUSTER,
      kubectl: running.kubectl,
      kubeconfig: running.cluster.kubeconfig,
      space: running.space,
      namespace,
      image: ledgerImage,
    };
    console.log(JSON.stringify(installed));
  }
} catch {
  process.exitCode = 1; // the step that failed has told why
} finally {
  steps.close();
}
