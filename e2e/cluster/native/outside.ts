import type { OutsideHost, OutsideOptions } from '../model.ts';
import { ADDRESSES, METADATA, SERVER, serve, servingOf } from '../outside/host.ts';
import { run } from '../run.ts';
import { type Layout, NETWORK } from './layout.ts';
import { insideNode } from './process.ts';

const NAME = 'outside';
const GATEWAY = '203.0.113.1';

/** A host beyond the cluster: one more network namespace on the node's bridge. */
export async function createOutside(layout: Layout, options: OutsideOptions): Promise<OutsideHost> {
  const inside = (...argv: readonly string[]) => run(insideNode(layout, argv));
  await inside('sh', '-ec', SETUP);
  return serve({
    command: insideNode(layout, ['ip', 'netns', 'exec', NAME, process.execPath, SERVER]),
    env: { SPACE_OUTSIDE: JSON.stringify(servingOf(options)) },
    tearDown: () => inside('sh', '-ec', TEARDOWN),
  });
}

const TEARDOWN = `
ip route delete ${METADATA}/32 2>/dev/null || true
ip link delete out0 2>/dev/null || true
ip netns delete ${NAME} 2>/dev/null || true
ip addr delete ${GATEWAY}/24 dev ${NETWORK.bridge} 2>/dev/null || true
`;

/** Begins by removing one that a killed test left behind. */
const SETUP = `${TEARDOWN}
ip netns add ${NAME}
ip link add out0 type veth peer name eth0 netns ${NAME}
ip link set out0 master ${NETWORK.bridge} up
ip addr add ${GATEWAY}/24 dev ${NETWORK.bridge}
ip -n ${NAME} link set lo up
ip -n ${NAME} link set eth0 up
${ADDRESSES.map((address) => `ip -n ${NAME} addr add ${address}/24 dev eth0`).join('\n')}
ip -n ${NAME} addr add ${METADATA}/32 dev eth0
ip route add ${METADATA}/32 via ${ADDRESSES[0]} src ${GATEWAY}
ip -n ${NAME} route add ${NETWORK.pods} via ${GATEWAY}
`;
