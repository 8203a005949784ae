import { fork } from 'node:child_process';
import { closeSync, openSync, readFileSync, statSync } from 'node:fs';
import { mkdir, rm } from 'node:fs/promises';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { replaceFile } from '../files.ts';
import { ClusterProblem } from '../problem.ts';
import { makeCgroups, removeCgroups } from './cgroups.ts';
import { type Identity, identityOf, isAlive } from './identity.ts';
import type { Layout } from './layout.ts';

const NAMESPACES = ['--mount', '--net', '--pid', '--uts', '--ipc', '--fork', '--mount-proc', '--kill-child'];

/** The process in whose namespaces the node runs, if it is running. */
export function runningNode(layout: Layout): Identity | undefined {
  try {
    const identity = JSON.parse(readFileSync(layout.nodeIdentity, 'utf8')) as Identity;
    return isAlive(identity) ? identity : undefined;
  } catch {
    return undefined; // never started, or half written by a crash before it was
  }
}

/** When the node was started, by the time of the file with its identity. */
export function nodeStarted(layout: Layout): Date | undefined {
  return statSync(layout.nodeIdentity, { throwIfNoEntry: false })?.mtime;
}

/**
 * Starts a node of the cluster: `unshare` → `tini`, its PID 1 → the supervisor. The first node's listener for the API
 * is opened here, on the machine's loopback, and passed to it: a socket stays in the network namespace that it was
 * opened in.
 */
export async function startNode(name: string, layout: Layout, apiPort?: number): Promise<void> {
  // Sockets of an earlier node, on which nothing listens.
  await rm(layout.run, { recursive: true, force: true });
  for (const directory of [layout.run, layout.log]) await mkdir(directory, { recursive: true });
  for (const mountPoint of ['/var/lib/cni', '/var/lib/calico']) await mkdir(mountPoint, { recursive: true });
  await makeCgroups(layout.cgroup);
  const listener = apiPort === undefined ? undefined : await listenOn(apiPort);
  const log = openSync(join(layout.log, 'node.log'), 'a');
  const child = fork(fileURLToPath(new URL('./node.ts', import.meta.url)), [name, String(layout.index)], {
    execPath: 'unshare',
    execArgv: [...NAMESPACES, 'tini', '--', process.execPath],
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', log, log, 'ipc'],
    detached: true,
  });
  closeSync(log);
  try {
    await new Promise<void>((resolve, reject) => {
      child.once('error', reject);
      child.once('exit', (code, signal) =>
        reject(new Error(`the node ended as it started: ${signal ?? `exit ${code}`}`)),
      );
      child.once('message', () => resolve());
      child.once('spawn', () => {
        const identity = identityOf(child.pid ?? 0);
        if (identity === undefined) return; // it ended already: `exit` says so
        replaceFile(layout.nodeIdentity, JSON.stringify(identity)).then(() => {
          child.send('listen', listener, (error) => error && reject(error));
        }, reject);
      });
    });
  } catch (error) {
    child.kill('SIGKILL');
    throw error;
  } finally {
    listener?.close();
    child.removeAllListeners();
    if (child.connected) child.disconnect();
    child.unref();
  }
}

function listenOn(port: number): Promise<Server> {
  const server = createServer();
  return new Promise((resolve, reject) => {
    server.once('error', (cause) =>
      reject(new ClusterProblem(`Port ${port} cannot be had.`, 'Choose another with --api-port.', { cause })),
    );
    server.listen(port, '127.0.0.1', () => resolve(server));
  });
}

const GONE_WITHIN_MS = 10_000;

/** Ends the node and everything of it: all in its namespaces ends with their first process. */
export async function stopNode(layout: Layout): Promise<void> {
  const identity = runningNode(layout);
  if (identity !== undefined) {
    const inside = firstProcess(identity);
    process.kill(identity.pid, 'SIGKILL');
    const deadline = Date.now() + GONE_WITHIN_MS;
    for (const one of [identity, inside]) {
      while (one !== undefined && isAlive(one)) {
        if (Date.now() > deadline) throw new Error(`process ${one.pid} does not end`);
        await delay(20);
      }
    }
  }
  await removeCgroups(layout.cgroup, GONE_WITHIN_MS);
  await rm(layout.nodeIdentity, { force: true });
}

/** PID 1 of the node, seen from here. */
function firstProcess(node: Identity): Identity | undefined {
  try {
    const children = readFileSync(`/proc/${node.pid}/task/${node.pid}/children`, 'utf8').trim().split(' ');
    return identityOf(Number(children[0]));
  } catch {
    return undefined;
  }
}

/** The node's PID 1, seen from here. */
export function processOf(layout: Layout): number {
  const node = runningNode(layout);
  const first = node === undefined ? undefined : firstProcess(node);
  if (first === undefined)
    throw new ClusterProblem(`The node ${layout.node} is not running.`, 'Bring it up with npm run up.');
  return first.pid;
}

type Command = readonly [string, ...string[]];

/** The command that runs `argv` inside the node. */
export const insideNode = (layout: Layout, argv: readonly string[]): Command => [
  ...(['nsenter', `--target=${processOf(layout)}`] as const),
  ...['--mount', '--net', '--pid', '--uts', '--ipc', '--', ...argv],
];
