/**
 * `npm run up`: a Space on a real cluster with an example Assistant in gVisor that has a database of its own.
 * Running it again does only what is missing.
 */
import { parseArgs } from 'node:util';
import { DEFAULT_CLUSTER } from './cluster/index.ts';
import { createSteps } from './progress/index.ts';
import { applyExamples, bringUpSpace, closing, tellStory, waitReady } from './space/index.ts';

const PROVIDERS = ['native', 'kind', 'kubeconfig'] as const;
const RELEASE = { space: 'home', namespace: 'home' };

const USAGE = `usage: npm run up -- [options]
  --provider native|kind|kubeconfig   where the cluster comes from (default: kind with a Docker engine, else native)
  --kubeconfig FILE                   your own cluster
  --image-registry PREFIX             where your own cluster pulls Space's images from
  --cluster NAME                      name of the cluster (space)
  --api-port PORT                     loopback port of the native cluster's API server (17443)
  --no-examples                       the Space alone`;

/** The command line is not understood; nothing was done. */
class UsageError extends Error {}

function readOptions(args: readonly string[]) {
  const { values } = parsed(args);
  const provider = PROVIDERS.find((known) => known === values.provider);
  if (values.provider !== undefined && provider === undefined) {
    throw new UsageError(`--provider ${values.provider}: known are ${PROVIDERS.join(', ')}`);
  }
  const { kubeconfig, 'image-registry': imageRegistry, 'api-port': port, cluster: name } = values;
  if (provider === 'kubeconfig' && kubeconfig === undefined) {
    throw new UsageError('--provider kubeconfig needs --kubeconfig FILE');
  }
  if (kubeconfig !== undefined && provider !== undefined && provider !== 'kubeconfig') {
    throw new UsageError(
      `--kubeconfig is your own cluster, --provider ${provider} is another: give one of them`,
    );
  }
  if (port !== undefined && !(/^[1-9][0-9]{0,4}$/.test(port) && Number(port) <= 65_535)) {
    throw new UsageError(`--api-port ${port}: a port is a number from 1 to 65535`);
  }
  if (!/^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$/.test(name)) {
    throw new UsageError(
      `--cluster ${name}: use a lowercase letter, then letters, digits and hyphens, 32 at most`,
    );
  }
  return {
    help: values.help,
    examples: !values['no-examples'],
    cluster: {
      name,
      ...(provider !== undefined && { provider }),
      ...(kubeconfig !== undefined && { kubeconfig }),
      ...(imageRegistry !== undefined && { imageRegistry }),
      ...(port !== undefined && { apiPort: Number(port) }),
    },
  };
}

function parsed(args: readonly string[]) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        provider: { type: 'string' },
        kubeconfig: { type: 'string' },
        'image-registry': { type: 'string' },
        cluster: { type: 'string', default: process.env['SPACE_CLUSTER'] ?? DEFAULT_CLUSTER },
        'api-port': { type: 'string' },
        'no-examples': { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message, { cause: error });
  }
}

async function up({ cluster: wanted, examples }: ReturnType<typeof readOptions>): Promise<void> {
  const steps = createSteps();
  try {
    const running = await bringUpSpace({ ...wanted, ...RELEASE, steps });
    const { cluster, kube, namespace, ledgerImage } = running;
    const story = !examples
      ? undefined
      : await steps.run('Capsule household, Assistant ledger', async (step) => {
          await applyExamples(kube, namespace, ledgerImage);
          const household = await waitReady(kube, 'capsule', 'household', namespace, step);
          await waitReady(kube, 'assistant', 'ledger', namespace, step);
          return tellStory(kube, household['status'].namespace);
        });
    steps.close();
    const { name, provider, kubeconfig } = cluster;
    console.log(closing({ name, provider, kubeconfig, ...RELEASE }, story, steps.summary()));
  } catch (error) {
    // A step that failed has told why; between steps nobody has.
    steps.close();
    if (!steps.summary().some(({ outcome }) => outcome === 'failed')) {
      console.error(error instanceof Error ? error.message : error);
    }
    process.exitCode = 1;
  } finally {
    steps.close();
  }
}

try {
  const options = readOptions(process.argv.slice(2));
  if (options.help) console.log(USAGE);
  else await up(options);
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  console.error(`${error.message}\n\n${USAGE}`);
  process.exitCode = 2;
}
