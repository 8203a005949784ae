/** A bare cluster, without a Space on it. */
import { commandLine } from '../../scripts/command-line.ts';
import { createSteps } from '../progress/index.ts';
import { bringUp, choose, openCluster, takeDown } from './index.ts';

const USAGE = 'usage: node e2e/cluster/main.ts up|down|status|provider [--name N] [--api-port P] [--keep]';

const { values, positionals } = commandLine(USAGE, {
  allowPositionals: true,
  options: {
    name: { type: 'string', default: 'space' },
    'api-port': { type: 'string' },
    keep: { type: 'boolean', default: false },
  },
});

const steps = createSteps();
const { name, keep } = values;
try {
  switch (positionals[0]) {
    case 'up': {
      const apiPort = values['api-port'];
      const cluster = await bringUp({
        name,
        steps,
        ...(apiPort !== undefined && { apiPort: Number(apiPort) }),
      });
      console.log(`export KUBECONFIG=${cluster.kubeconfig}`);
      break;
    }
    case 'down':
      await takeDown(name, { keep, steps });
      break;
    case 'status': {
      const cluster = await openCluster(name);
      console.log(
        cluster === undefined
          ? `${name} is not running`
          : `${name}: ${cluster.provider}, ${cluster.kubeconfig}`,
      );
      break;
    }
    case 'provider':
      console.log(await choose({ name })); // the provider that `up` would use
      break;
    default:
      console.error(USAGE);
      process.exitCode = 2;
  }
} catch {
  process.exitCode = 1; // the failed step has told why
} finally {
  steps.close();
}
