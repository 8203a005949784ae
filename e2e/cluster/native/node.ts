/**
 * A node: runs as the one child of a reaping PID 1 inside mount, network, pid, uts and ipc namespaces of its own.
 * Everything that it creates (mounts, interfaces, routes, rules, processes) ends with those namespaces.
 */
import { execFileSync } from 'node:child_process';
import { mkdirSync } from 'node:fs';
import { get } from 'node:https';
import { connect, type Server } from 'node:net';
import { components } from './components.ts';
import { type Layout, NETWORK, nodeLayout } from './layout.ts';
import { deviceSetUp } from './network.ts';
import { createSupervisor } from './supervisor.ts';
import { makeVolumes, recycleVolumes } from './volumes.ts';

const [name = '', index = '1'] = process.argv.slice(2);
const layout = nodeLayout(name, Number(index));

function sh(program: string, ...args: string[]): void {
  execFileSync(program, args, { stdio: ['ignore', 'ignore', 'inherit'] });
}

function makeMounts({ node, state }: Layout): void {
  sh('mount', '--make-rprivate', '/'); // cut the tie to the machine …
  sh('mount', '--make-rshared', '/'); // … and be shared among ourselves, as mount propagation of pods needs
  // Shims, xtables.lock and network namespaces have fixed paths in /run, so it is private, and empty at every start.
  sh('mount', '-t', 'tmpfs', '-o', 'mode=755', 'tmpfs', '/run');
  for (const at of ['/run/lock', '/run/netns']) mkdirSync(at, { recursive: true });
  for (const at of ['pods', 'containers', 'calico/cni'])
    mkdirSync(`${state}/var-log/${at}`, { recursive: true });
  // The two directories under /var/lib stay on the machine, empty: removing a mount point detaches the mount of
  // another cluster.
  for (const [own, at] of Object.entries(BOUND)) {
    mkdirSync(`${state}/${own}`, { recursive: true });
    sh('mount', '--bind', `${state}/${own}`, at);
  }
  sh('hostname', node);
}

const BOUND = { 'var-log': '/var/log', 'var-lib-cni': '/var/lib/cni', 'var-lib-calico': '/var/lib/calico' };

const IP = 'ip';

/** A further node's device is created from outside, since it must lead into the first node's namespace. */
function makeNetwork(): void {
  const first = [`link add ${NETWORK.bridge} type bridge`, ...deviceSetUp(layout)];
  execFileSync(IP, ['-batch', '-'], {
    input: ['link set lo up', ...(layout.index === 1 ? first : [])].join('\n'),
    stdio: ['pipe', 'ignore', 'inherit'],
  });
  const sysctls = ['ip_forward=1', 'conf.all.rp_filter=1', 'conf.default.rp_filter=1'];
  sh('sysctl', '-qw', ...sysctls.map((setting) => `net.ipv4.${setting}`));
}

/** Forwards connections from the listener that `up` opened on the machine's loopback to the API server. */
function forward(listener: Server): void {
  listener.on('connection', (client) => {
    const api = connect(NETWORK.apiPort, '127.0.0.1');
    client.setNoDelay();
    api.setNoDelay();
    client.pipe(api).pipe(client);
    client.on('error', () => api.destroy());
    api.on('error', () => client.destroy());
    client.on('close', () => api.destroy());
    api.on('close', () => client.destroy());
  });
}

/**
 * Anonymous requests may read `/readyz`. Only this cluster's API server can answer, since it is the only one in these
 * namespaces.
 */
function apiReady(): Promise<boolean> {
  return new Promise((resolve) => {
    const request = get(
      {
        host: layout.index === 1 ? '127.0.0.1' : NETWORK.node,
        port: NETWORK.apiPort,
        path: '/readyz',
        rejectUnauthorized: false,
        agent: false,
        timeout: 2_000,
      },
      (response) => resolve(response.resume().statusCode === 200),
    );
    request.on('timeout', () => request.destroy());
    request.on('error', () => resolve(false));
  });
}

/**
 * `up` passes its listener to the first node once it has recorded the node's identity. If `up` ends before, the node
 * ends, too.
 */
function receiveListener(): Promise<Server | undefined> {
  return new Promise((resolve) => {
    const orphaned = () => process.exit(1);
    process.once('disconnect', orphaned);
    process.once('message', (_message, listener) => {
      process.off('disconnect', orphaned);
      resolve(listener as Server | undefined);
    });
  });
}

async function run(): Promise<void> {
  const listener = await receiveListener();
  makeMounts(layout);
  makeNetwork();
  makeVolumes(layout);
  if (listener !== undefined) forward(listener);
  const start = createSupervisor({
    log: layout.log,
    status: layout.componentStatus,
    env: {
      PATH: `${layout.bin}:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin`,
      HOME: '/root',
      LC_ALL: 'C',
    },
  });
  const all = components(layout);
  for (const component of all) if (component.needsApi !== true) start(component);
  if (process.connected) process.send?.('up');
  while (!(await apiReady())) await new Promise((resolve) => setTimeout(resolve, 100));
  for (const component of all) if (component.needsApi === true) start(component);
  if (layout.index === 1) recycleVolumes(layout);
}

await run();
