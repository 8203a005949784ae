import type { OutsideHost, OutsideOptions } from '../model.ts';
import { ADDRESSES, METADATA, SERVER, serve, servingOf } from '../outside/host.ts';
import { run } from '../run.ts';
import { type Layout, NETWORK } from './layout.ts';
import { insideNode } from './process.ts';

const NAME = 'outside';
const BLOCK = '203.0.113.0/24';
const GATEWAY = '203.0.113.1';
/** The same each time: a node that knew a host before would send to one that is gone until it asks anew, seconds later. */
const HARDWARE_ADDRESS = '02:00:cb:00:71:01';

/** A host beyond the cluster: one more network namespace on the nodes' bridge, which all of them reach. */
export async function createOutside(
  [first, ...further]: readonly [Layout, ...Layout[]],
  options: OutsideOptions,
): Promise<OutsideHost> {
  const on = (node: Layout, script: string) => run(insideNode(node, ['sh', '-ec', script]));
  const tearDown = async () => {
    for (const node of further) await on(node, FORGET);
    await on(first, TEARDOWN);
  };
  await tearDown(); // one that a killed test left behind
  await on(first, SETUP);
  for (const node of further) {
    await on(node, wayFrom(node));
    await on(first, wayBackTo(node));
  }
  return serve({
    command: insideNode(first, ['ip', 'netns', 'exec', NAME, process.execPath, SERVER]),
    env: { SPACE_OUTSIDE: JSON.stringify(servingOf(options)) },
    tearDown,
  });
}

const TEARDOWN = `
ip route delete ${METADATA}/32 2>/dev/null || true
ip link delete out0 2>/dev/null || true
ip netns delete ${NAME} 2>/dev/null || true
ip addr delete ${GATEWAY}/24 dev ${NETWORK.bridge} 2>/dev/null || true
`;

const SETUP = `
ip netns add ${NAME}
ip link add out0 type veth peer name eth0 netns ${NAME}
ip link set out0 master ${NETWORK.bridge} up
ip addr add ${GATEWAY}/24 dev ${NETWORK.bridge}
ip -n ${NAME} link set lo up
ip -n ${NAME} link set eth0 address ${HARDWARE_ADDRESS} up
${ADDRESSES.map((address) => `ip -n ${NAME} addr add ${address}/24 dev eth0`).join('\n')}
ip -n ${NAME} addr add ${METADATA}/32 dev eth0
ip route add ${METADATA}/32 via ${ADDRESSES[0]} src ${GATEWAY}
ip -n ${NAME} route add ${NETWORK.pods} via ${GATEWAY}
`;

/** A further node's device leads to the same bridge. */
const wayFrom = ({ address }: Layout) => `
ip route replace ${BLOCK} dev ${NETWORK.bridge} src ${address}
ip route replace ${METADATA}/32 via ${ADDRESSES[0]} dev ${NETWORK.bridge} src ${address}
`;

/** Each node knows where its own pods are. */
const wayBackTo = ({ address, pods }: Layout) => `
ip -n ${NAME} route add ${address}/32 dev eth0
ip -n ${NAME} route add ${pods} via ${address}
`;

const FORGET = `
ip route delete ${METADATA}/32 2>/dev/null || true
ip route delete ${BLOCK} 2>/dev/null || true
`;
