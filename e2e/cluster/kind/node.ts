/** The one node of a kind cluster, which is a container, and the network that it is in. */
import { run } from '../run.ts';

export const nodeOf = (name: string): string => `${name}-control-plane`;

/** Each cluster has its own network: nobody could tell when the one that all kind clusters share is no longer needed. */
export const networkOf = (name: string): string => `space-kind-${name}`;

/**
 * Made here, since kind would ask for IPv6, too: the engine then lets the whole machine forward IPv6 from one interface to
 * another, and nobody puts that setting back. kind takes a network that is there already.
 */
export async function createNetwork(name: string): Promise<void> {
  const mtuOption = 'com.docker.network.driver.mtu';
  const format = `{{with index .Options "${mtuOption}"}}{{.}}{{end}}`;
  const asked = run(['docker', 'network', 'inspect', '--format', format, 'bridge']);
  const mtu = (await asked.catch(() => '')).trim(); // an engine may have no default network
  const options = mtu === '' ? [] : ['--opt', `${mtuOption}=${mtu}`];
  await run(['docker', 'network', 'create', '--driver', 'bridge', ...options, networkOf(name)]);
}

/** kind takes the name of another network from nowhere else. */
export const networkEnvironment = (name: string): NodeJS.ProcessEnv => ({
  ...process.env,
  KIND_EXPERIMENTAL_DOCKER_NETWORK: networkOf(name),
});

/** The command that runs `argv` in the node. */
export const inNode = (name: string, ...argv: readonly string[]): readonly [string, ...string[]] => [
  'docker',
  'exec',
  '--interactive',
  nodeOf(name),
  ...argv,
];

export const isRunning = async (name: string): Promise<boolean> =>
  (await run(['docker', 'inspect', '--format', '{{.State.Running}}', nodeOf(name)])).trim() === 'true';

/** The digest of each image that the node has, by the name that the engine has for it. */
export async function imagesOf(name: string): Promise<ReadonlyMap<string, string>> {
  const listed = await run(inNode(name, 'ctr', '--namespace=k8s.io', 'images', 'list'));
  const [, ...rows] = listed.trim().split('\n');
  return new Map(
    rows.map((row) => {
      const [reference = '', , digest = ''] = row.split(/\s+/);
      return [reference.replace(/^docker\.io\//, ''), digest];
    }),
  );
}
