import { copyFile } from 'node:fs/promises';
import { join } from 'node:path';
import { withScratch } from '../builds/cache.ts';
import { dockerBuild } from '../docker.ts';
import type { OutsideHost, OutsideOptions } from '../model.ts';
import { ADDRESSES, METADATA, SERVER, serve, servingOf } from '../outside/host.ts';
import { run } from '../run.ts';
import { PODS } from './configuration.ts';

const RANGE = '203.0.113.0/24';

/**
 * Connections from pods to hosts beyond the cluster normally have the node's address; here they keep the pod's own,
 * so that tests can see the caller.
 */
const POOL = JSON.stringify({
  apiVersion: 'crd.projectcalico.org/v1',
  kind: 'IPPool',
  metadata: { name: 'outside' },
  spec: { cidr: RANGE, disabled: true },
});

interface Node {
  readonly name: string;
  /** The engine's network that the container joins. */
  readonly network: string;
  readonly log: string;
  command(argv: readonly string[]): readonly [string, ...string[]];
}

/** The container's name. */
export const outsideOf = (node: string): string => `${node}-outside`;

/** A host beyond the cluster: a further container in the engine's network. */
export async function createOutside(node: Node, options: OutsideOptions): Promise<OutsideHost> {
  const image = await outsideImage(node.log);
  const name = outsideOf(node.name);
  const inNode = (script: string, input?: string) =>
    run(node.command(['sh', '-ec', script]), { ...(input !== undefined && { input }) });
  const tearDown = async () => {
    await run(['docker', 'rm', '--force', name]);
    await inNode(`ip route delete ${RANGE} || true; ip route delete ${METADATA} || true`);
  };
  await tearDown().catch(() => undefined); // one that a killed test left behind
  await inNode('kubectl --kubeconfig=/etc/kubernetes/admin.conf apply --filename=-', POOL);
  const script = [
    ...ADDRESSES.map((address) => `ip addr add ${address}/24 dev eth0`),
    `ip addr add ${METADATA}/32 dev eth0`,
    `ip route add ${PODS} via ${await addressOf(node.name, node.network)}`,
    'exec node /server.ts',
  ].join('\n');
  const host = await serve({
    command: [
      'docker',
      ...['run', '--rm', '--interactive', '--name', name],
      ...['--network', node.network, '--cap-add', 'NET_ADMIN', '--env', 'SPACE_OUTSIDE'],
      ...[image, 'sh', '-ec', script],
    ],
    env: { SPACE_OUTSIDE: JSON.stringify(servingOf(options)) },
    tearDown,
  });
  const address = await addressOf(name, node.network);
  await inNode([RANGE, METADATA].map((range) => `ip route replace ${range} via ${address}`).join('\n'));
  return host;
}

const addressOf = async (container: string, network: string): Promise<string> => {
  const format = `{{(index .NetworkSettings.Networks "${network}").IPAddress}}`;
  return (await run(['docker', 'inspect', '--format', format, container])).trim();
};

function outsideImage(log: string): Promise<string> {
  const dockerfile = join(import.meta.dirname, '..', 'images', 'outside', 'Dockerfile');
  return withScratch('outside', async (context) => {
    await copyFile(SERVER, join(context, 'server.ts'));
    return dockerBuild({ name: 'space/outside', dockerfile, context }, log);
  });
}
