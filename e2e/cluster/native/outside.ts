import { spawn } from 'node:child_process';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';
import type { OutsideConnection, OutsideHost, OutsideOptions, OutsideRequest } from '../model.ts';
import { run } from '../run.ts';
import { type Layout, NETWORK } from './layout.ts';
import type { Serving } from './outside-server.ts';
import { insideNode } from './process.ts';

const NAME = 'outside';
const GATEWAY = '203.0.113.1';
const ADDRESSES = ['203.0.113.10', '203.0.113.20'] as const;
const METADATA = '169.254.169.254';

/**
 * A host beyond the cluster: one more network namespace on the node's bridge, in a range that is nobody's
 * (TEST-NET-3), and at the clouds' metadata address. Its server accepts, answers HTTP with who called, and tells of
 * every connection.
 */
export async function createOutside(layout: Layout, options: OutsideOptions): Promise<OutsideHost> {
  const inside = (...argv: readonly string[]) => run(insideNode(layout, argv));
  await inside('sh', '-ec', SETUP);
  const server = fileURLToPath(new URL('./outside-server.ts', import.meta.url));
  const { ports, udp = [] } = options;
  const at = (numbers: readonly number[]) =>
    ADDRESSES.flatMap((address) => numbers.map((port) => ({ address, port })));
  const serving: Serving = {
    tcp: [...at(ports), { address: METADATA, port: 80 }],
    udp: at(udp),
    tls: options.tls ?? null,
    answers: options.answers ?? {},
  };
  const argv = ['ip', 'netns', 'exec', NAME, process.execPath, server];
  const [program, ...args] = insideNode(layout, argv);
  const child = spawn(program, args, {
    stdio: ['pipe', 'pipe', 'inherit'],
    env: { ...process.env, SPACE_OUTSIDE: JSON.stringify(serving) },
  });
  const seen: OutsideConnection[] = [];
  const asked: OutsideRequest[] = [];
  const listening = Promise.withResolvers<void>();
  child.on('error', listening.reject);
  child.on('exit', (code) => listening.reject(new Error(`the outside host ended: exit ${code}`)));
  createInterface({ input: child.stdout }).on('line', (line) => {
    if (line === 'listening') listening.resolve();
    else {
      const told = JSON.parse(line) as OutsideConnection | OutsideRequest;
      if ('method' in told) asked.push(told);
      else seen.push(told);
    }
  });
  await listening.promise;
  return {
    addresses: ADDRESSES,
    metadata: METADATA,
    connections: () => [...seen],
    requests: () => [...asked],
    async [Symbol.asyncDispose]() {
      const ended = new Promise((resolve) => child.once('exit', resolve));
      child.stdin.end(); // the server ends with its input
      if (child.exitCode === null) await ended;
      await inside('sh', '-ec', TEARDOWN);
    },
  };
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
