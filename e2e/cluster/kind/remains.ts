/** What the engine has of a cluster, and who created it: `up` and `down` change nothing that no Space has created. */
import type { Problem } from '../native/preflight.ts';
import { run } from '../run.ts';
import { networkOf, nodeOf } from './node.ts';
import { outsideOf } from './outside.ts';

/** The container that prints the version of the node image. */
export const versionOf = (name: string): string => `${nodeOf(name)}-version`;

type Owner = 'nobody' | 'space' | 'another';

/** Only nodes that a Space created, from any checkout, are in the network of that name. */
export async function ownerOf(name: string): Promise<Owner> {
  const nodes = await nodesOf(name);
  if (nodes.length === 0) return 'nobody';
  const networks = await run(['docker', 'container', 'inspect', '--format', NETWORK, ...nodes]);
  return lines(networks).every((network) => network === networkOf(name)) ? 'space' : 'another';
}

const NETWORK = '{{.HostConfig.NetworkMode}}';

export const foreign = (name: string): Problem => ({
  wrong: `There is a kind cluster ${name} already, which no Space has made; it is left as it is.`,
  mend: `Choose another name with --cluster. If that cluster is yours, kind delete cluster --name ${name} removes it.`,
});

/** True if the engine has anything of a cluster of that name, whoever created it. */
export const remains = async (name: string): Promise<boolean> =>
  [...(await nodesOf(name)), ...(await helpersOf(name)), ...(await networksOf(name))].length > 0;

/**
 * Removes all of it, including what a killed test or an interrupted `up` left. The caller has checked who created it.
 */
export async function removeRemains(name: string): Promise<void> {
  const containers = [...(await nodesOf(name)), ...(await helpersOf(name))];
  if (containers.length > 0) await run(['docker', 'rm', '--force', '--volumes', ...containers]);
  const networks = await networksOf(name);
  if (networks.length > 0) await run(['docker', 'network', 'rm', ...networks]);
}

/** Finds containers by kind's label, and by name: another container of that name would conflict with kind's. */
async function nodesOf(name: string): Promise<readonly string[]> {
  const labelled = await containers(`label=io.x-k8s.kind.cluster=${name}`);
  return [...new Set([...labelled, ...(await containers(named(nodeOf(name))))])];
}

const helpersOf = async (name: string): Promise<readonly string[]> => [
  ...(await containers(named(outsideOf(nodeOf(name))))),
  ...(await containers(named(versionOf(name)))),
];

const networksOf = async (name: string): Promise<readonly string[]> =>
  lines(await run(['docker', 'network', 'ls', '--quiet', '--filter', `name=^${networkOf(name)}$`]));

const containers = async (filter: string): Promise<readonly string[]> =>
  lines(await run(['docker', 'container', 'ls', '--all', '--quiet', '--filter', filter]));

/** The engine compares with and without the slash that each name begins with. */
const named = (container: string): string => `name=^/?${container}$`;

const lines = (text: string): readonly string[] => text.split('\n').filter((line) => line !== '');
