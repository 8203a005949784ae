import { parseArgs } from 'node:util';
import { type BringUp, DEFAULT_CLUSTER, MAX_NODES } from '../cluster/index.ts';

const PROVIDERS = ['native', 'kind', 'kubeconfig'] as const;

export const USAGE = `usage: npm run up -- [options]
  --provider native|kind|kubeconfig   which kind of cluster to use (default: kind if there is a Docker engine that can run it, otherwise native)
  --kubeconfig FILE                   use your own cluster
  --image-registry PREFIX             the registry from which your own cluster pulls Space's images
  --cluster NAME                      name of the cluster (space)
  --nodes N                           number of nodes of a native cluster (1)
  --api-port PORT                     loopback port of the API server (native: 17443; kind: any free port)
  --no-examples                       install the Space without the example Capsule and Assistant`;

/** The command line is invalid, and nothing was done. */
export class UsageError extends Error {}

export interface UpOptions {
  readonly help: boolean;
  readonly examples: boolean;
  readonly cluster: Omit<BringUp, 'images' | 'steps'>;
}

/** Reads the command line of `npm run up`; reports what is wrong with one that makes no sense. */
export function readOptions(args: readonly string[], defaultCluster = DEFAULT_CLUSTER): UpOptions {
  const { values } = parsed(args, defaultCluster);
  const { kubeconfig, 'image-registry': imageRegistry, 'api-port': port, cluster: name, nodes } = values;
  const named = PROVIDERS.find((known) => known === values.provider);
  const wrong = (why: string) => {
    throw new UsageError(why);
  };
  // Only the native provider has several nodes.
  const provider = nodes === undefined ? named : 'native';
  if (values.provider !== undefined && named === undefined)
    wrong(`--provider ${values.provider}: use one of ${PROVIDERS.join(', ')}`);
  if (nodes !== undefined && ((named ?? 'native') !== 'native' || kubeconfig !== undefined))
    wrong(`--nodes ${nodes}: only a native cluster can have several nodes`);
  if (nodes !== undefined && !(/^[1-9]$/.test(nodes) && Number(nodes) <= MAX_NODES))
    wrong(`--nodes ${nodes}: use a number from 1 to ${MAX_NODES}`);
  if (provider === 'kubeconfig' && kubeconfig === undefined)
    wrong('--provider kubeconfig needs --kubeconfig FILE');
  if (kubeconfig !== undefined && provider !== undefined && provider !== 'kubeconfig')
    wrong(
      `--kubeconfig uses your own cluster, but --provider ${provider} creates one: use only one of the two options`,
    );
  if (port !== undefined && !(/^[1-9][0-9]{0,4}$/.test(port) && Number(port) <= 65_535))
    wrong(`--api-port ${port}: a port is a number from 1 to 65535`);
  if (!/^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$/.test(name))
    wrong(`--cluster ${name}: use a lowercase letter, then letters, digits and hyphens, 32 at most`);
  return {
    help: values.help,
    examples: !values['no-examples'],
    cluster: {
      name,
      ...(provider !== undefined && { provider }),
      ...(kubeconfig !== undefined && { kubeconfig }),
      ...(imageRegistry !== undefined && { imageRegistry }),
      ...(port !== undefined && { apiPort: Number(port) }),
      ...(nodes !== undefined && { nodes: Number(nodes) }),
    },
  };
}

function parsed(args: readonly string[], defaultCluster: string) {
  try {
    return parseArgs({
      args: [...args],
      options: {
        provider: { type: 'string' },
        kubeconfig: { type: 'string' },
        'image-registry': { type: 'string' },
        cluster: { type: 'string', default: defaultCluster },
        'api-port': { type: 'string' },
        nodes: { type: 'string' },
        'no-examples': { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    });
  } catch (error) {
    throw new UsageError((error as Error).message, { cause: error });
  }
}
