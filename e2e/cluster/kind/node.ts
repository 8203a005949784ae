/** The one node of a kind cluster, which is a container, and its network. */
import { run } from '../run.ts';

export const nodeOf = (name: string): string => `${name}-control-plane`;

/**
 * Each cluster has its own network, since nobody could tell when the one that kind clusters share is no longer
 * needed.
 */
export const networkOf = (name: string): string => `space-kind-${name}`;

/**
 * The network is created here, since kind would enable IPv6 in it. The engine would then let the whole machine
 * forward IPv6 between interfaces, and nothing would reset that setting. kind uses an existing network.
 */
export async function createNetwork(name: string): Promise<void> {
  const mtuOption = 'com.docker.network.driver.mtu';
  const format = `{{with index .Options "${mtuOption}"}}{{.}}{{end}}`;
  const asked = run(['docker', 'network', 'inspect', '--format', format, 'bridge']);
  const mtu = (await asked.catch(() => '')).trim(); // an engine may have no default network
  const options = mtu === '' ? [] : ['--opt', `${mtuOption}=${mtu}`];
  await run(['docker', 'network', 'create', '--driver', 'bridge', ...options, networkOf(name)]);
}

/** kind reads the name of another network only from this variable. */
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

/** The digest of each image on the node, by the engine's name for it. */
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
