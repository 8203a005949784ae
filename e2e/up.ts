/**
 * `npm run up`: a Space on a real cluster with an example Assistant in gVisor that has a database of its own.
 * Running it again does only what is missing.
 */
import { copyFile, mkdir } from 'node:fs/promises';
import { parseArgs } from 'node:util';
import { createSteps } from './progress/index.ts';
import { closingTable, nextSteps } from './space/closing.ts';
import { applyExamples, bringUpSpace, tellStory, waitReady } from './space/index.ts';

const USAGE = `usage: npm run up -- [options]
  --provider native|kind|kubeconfig   where the cluster comes from (default: kind with a Docker engine, else native)
  --kubeconfig FILE                   your own cluster
  --image-registry PREFIX             where your own cluster pulls Space's images from
  --name NAME                         name of the cluster (space)
  --api-port PORT                     loopback port of the native cluster's API server
  --no-examples                       the Space alone`;

const RELEASE = { space: 'home', namespace: 'home' };
const PROVIDERS = ['native', 'kind', 'kubeconfig'] as const;

function options() {
  const { values } = parseArgs({
    options: {
      provider: { type: 'string' },
      kubeconfig: { type: 'string' },
      'image-registry': { type: 'string' },
      name: { type: 'string', default: 'space' },
      'api-port': { type: 'string' },
      'no-examples': { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  const provider = PROVIDERS.find((known) => known === values.provider);
  if (values.provider !== undefined && provider === undefined)
    throw new Error(`--provider ${values.provider}: unknown`);
  const port = values['api-port'] === undefined ? undefined : Number(values['api-port']);
  if (port !== undefined && !(Number.isInteger(port) && port > 0 && port < 65_536)) {
    throw new Error(`--api-port ${values['api-port']}: not a port`);
  }
  return {
    help: values.help,
    examples: !values['no-examples'],
    cluster: {
      name: values.name,
      ...(provider !== undefined && { provider }),
      ...(values.kubeconfig !== undefined && { kubeconfig: values.kubeconfig }),
      ...(values['image-registry'] !== undefined && { imageRegistry: values['image-registry'] }),
      ...(port !== undefined && { apiPort: port }),
    },
  };
}

async function up({ cluster, examples }: ReturnType<typeof options>): Promise<void> {
  const steps = createSteps();
  try {
    const running = await bringUpSpace({ ...cluster, ...RELEASE, steps });
    await mkdir('.space', { recursive: true });
    if (running.cluster.kubeconfig !== '.space/kubeconfig') {
      await copyFile(running.cluster.kubeconfig, '.space/kubeconfig');
    }
    const { kube, namespace } = running;
    const story = !examples
      ? undefined
      : await steps.run('Capsule household, Assistant ledger', async (step) => {
          await applyExamples(kube, namespace, running.ledgerImage);
          const household = await waitReady(kube, 'capsule', 'household', namespace, step);
          await waitReady(kube, 'assistant', 'ledger', namespace, step);
          return tellStory(kube, household['status'].namespace);
        });
    steps.close();
    console.log(closingTable(steps.summary()));
    console.log(nextSteps(RELEASE.namespace, story));
  } catch {
    process.exitCode = 1; // the step that failed has told why
  } finally {
    steps.close();
  }
}

try {
  const asked = options();
  if (asked.help) console.log(USAGE);
  else await up(asked);
} catch (error) {
  console.error(`${error instanceof Error ? error.message : error}\n\n${USAGE}`);
  process.exitCode = 2;
}
