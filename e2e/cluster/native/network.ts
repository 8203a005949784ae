import { run } from '../run.ts';
import { type Layout, NETWORK } from './layout.ts';
import { processOf } from './process.ts';

/** What a node's device needs. There is no default route: nothing in a node can send a packet beyond the cluster. */
export const deviceSetUp = ({ address }: Layout): readonly string[] => [
  `addr add ${address}/24 dev ${NETWORK.bridge}`,
  `link set ${NETWORK.bridge} up`,
  // Service addresses are rewritten only after routing, so they need some route.
  `route add ${NETWORK.services} dev ${NETWORK.bridge} src ${address}`,
  // The kernel answers ARP for Calico's gateway only when it has a route to it.
  `route add ${NETWORK.gateway}/32 dev ${NETWORK.bridge}`,
];

/**
 * Links a further node to the bridge in the first one's namespace. Both ends of the link are in the nodes' namespaces,
 * so that it ends with either.
 */
export async function linkNode(first: Layout, node: Layout): Promise<void> {
  if (await isLinked(node)) return;
  const end = `node-${node.index}`;
  await inNetwork(first, ['sysctl', '-qw', ...BRIDGED]).catch(() => undefined);
  await inNetwork(first, ['ip', 'link', 'delete', end]).catch(() => undefined);
  const link = [
    `link add ${end} type veth peer name ${NETWORK.bridge} netns ${processOf(node)}`,
    `link set ${end} master ${NETWORK.bridge} up`,
  ];
  await batch(first, link);
  await batch(node, deviceSetUp(node));
}

/** Traffic over the bridge between two further nodes must not pass the first node's rules. */
const BRIDGED = ['net.bridge.bridge-nf-call-iptables=0'];

/** Adds routes on every node to the pods of all others. */
export async function routeNodes(nodes: readonly Layout[]): Promise<void> {
  for (const node of nodes) {
    const others = nodes.filter(({ index }) => index !== node.index);
    await batch(
      node,
      others.map(({ pods, address }) => `route replace ${pods} via ${address}`),
    );
  }
}

/** Whether the last setting of a device is present. */
const isLinked = async (node: Layout): Promise<boolean> =>
  (await inNetwork(node, ['ip', 'route', 'show', NETWORK.gateway])) !== '';

/** This runs with the processes of this machine visible, since `ip` names the other namespace by a process id. */
const inNetwork = (node: Layout, argv: readonly string[], input?: string): Promise<string> =>
  run(
    ['nsenter', `--target=${processOf(node)}`, '--net', '--', ...argv],
    input === undefined ? {} : { input },
  );

const batch = (node: Layout, lines: readonly string[]): Promise<string> =>
  inNetwork(node, ['ip', '-batch', '-'], lines.join('\n'));
