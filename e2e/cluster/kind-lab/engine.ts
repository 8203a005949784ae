import { spawn } from 'node:child_process';
import { closeSync, existsSync, openSync, readFileSync } from 'node:fs';
import { copyFile, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { readJson, replaceFile } from '../files.ts';
import { type Identity, identityOf, isAlive } from '../native/identity.ts';
import { ClusterProblem } from '../problem.ts';
import { run } from '../run.ts';
import { setCpuWeight } from '../share.ts';

/** The lab's directory. Debian's engine is unpacked in it, and not installed. */
export const LAB = '/var/lib/space.kind-lab';
const PROGRAMS = join(LAB, 'programs');
/** The number of processes that are busy while a Space is installed on a cluster. */
const PROCESSES = 32;
const CGROUP = 'space.kind-lab';
const PACKAGES = ['docker.io', 'containerd', 'runc', 'slirp4netns', 'libslirp0'];
/** Debian 13 has the command in a separate package. */
const COMMAND = 'docker-cli';

export const log = (name: string): string => join(LAB, 'log', `${name}.log`);
const record = (name: string): string => join(LAB, `${name}.json`);

/** The environment of commands that use the lab's engine. */
export const environment = (): NodeJS.ProcessEnv => ({
  ...process.env,
  DOCKER_HOST: `unix://${LAB}/docker.sock`,
  PATH: `${PROGRAMS}/usr/bin:${process.env['PATH']}`,
});

export async function unpack(): Promise<void> {
  if (existsSync(join(PROGRAMS, 'whole'))) return;
  const work = join(LAB, 'packages');
  await rm(PROGRAMS, { recursive: true, force: true });
  await mkdir(work, { recursive: true });
  const options = { cwd: work, log: log('apt') };
  const known = await run(['apt-cache', 'show', COMMAND]).then(
    () => [COMMAND],
    () => [],
  );
  const download = () => run(['apt-get', 'download', ...PACKAGES, ...known], options);
  await download().catch(async () => {
    await run(['apt-get', 'update'], options);
    await download();
  });
  for (const file of await readdir(work)) await run(['dpkg', '--extract', file, PROGRAMS], options);
  await rm(work, { recursive: true });
  await writeFile(join(PROGRAMS, 'whole'), '');
}

const alive = async (name: string): Promise<Identity | undefined> => {
  const identity = await readJson<Identity>(record(name));
  return identity !== undefined && isAlive(identity) ? identity : undefined;
};

/** The first process of the engine, which is in its namespaces. */
function inside({ pid }: Identity): number | undefined {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, 'utf8').trim();
  return children === '' ? undefined : Number(children.split(' ')[0]);
}

async function started(
  name: string,
  [program, ...args]: readonly [string, ...string[]],
  env: NodeJS.ProcessEnv = process.env,
): Promise<Identity> {
  const output = openSync(log(name), 'a');
  const child = spawn(program, args, { detached: true, stdio: ['ignore', output, output], env });
  closeSync(output);
  await new Promise<void>((resolve, reject) => {
    child.once('spawn', resolve);
    child.once('error', reject);
  });
  child.unref();
  const identity = identityOf(child.pid ?? 0);
  if (identity === undefined) throw new Error(`${name} ended as it started`);
  await replaceFile(record(name), JSON.stringify(identity));
  return identity;
}

export async function start(): Promise<void> {
  if ((await alive('engine')) !== undefined) return;
  await stop();
  await mkdir(join(LAB, 'wrap'), { recursive: true });
  const here = import.meta.dirname;
  const wrapper = await readFile(join(here, 'runc.sh'), 'utf8');
  await writeFile(join(LAB, 'wrap', 'runc'), wrapper.replace('RUNC', join(PROGRAMS, 'usr/sbin/runc')), {
    mode: 0o755,
  });
  await writeFile(join(LAB, 'daemon.json'), '{}');
  await copyFile(join(here, 'dockerd.sh'), join(LAB, 'dockerd.sh'));
  await setCpuWeight(CGROUP, PROCESSES);
  const namespaces = ['--mount', '--net', '--pid', '--fork', '--kill-child'];
  const engine = await started('engine', ['unshare', ...namespaces, 'bash', join(LAB, 'dockerd.sh'), LAB]);
  await until('the engine to begin', () => inside(engine) !== undefined);
  const way = ['--configure', '--mtu=1500', '--disable-host-loopback', '--cidr=10.199.0.0/24'];
  await started('way-out', [join(PROGRAMS, 'usr/bin/slirp4netns'), ...way, String(inside(engine)), 'tap0'], {
    ...process.env,
    LD_LIBRARY_PATH: join(PROGRAMS, 'usr/lib/x86_64-linux-gnu'),
  });
  await until('the engine to answer', async () => {
    if (!isAlive(engine)) throw new Error('the engine ended as it started');
    return run(['docker', 'version'], { env: environment() }).then(
      () => true,
      () => false,
    );
  });
}

const WITHIN_MS = 120_000;

async function until(what: string, holds: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = Date.now() + WITHIN_MS;
  while (!(await holds())) {
    if (Date.now() > deadline) throw new Error(`waited 2 minutes for ${what}`);
    await delay(100);
  }
}

/** The command that runs `argv` in the network namespace of the engine's containers' ports. */
export const inNetwork = (argv: readonly string[]): Promise<Command> => within(['--net'], argv);

/** The command that runs `argv` with the mounts and the network of the engine's first process. */
export const inNamespaces = (argv: readonly string[]): Promise<Command> =>
  within(['--mount', '--net', '--pid'], argv); // its /proc is that of its processes

type Command = readonly [string, ...string[]];

async function within(namespaces: readonly string[], argv: readonly string[]): Promise<Command> {
  const engine = await alive('engine');
  const pid = engine === undefined ? undefined : inside(engine);
  if (pid === undefined)
    throw new ClusterProblem('The lab’s engine is not running.', 'Start it with npm run kind-lab -- up.');
  return ['nsenter', `--target=${pid}`, ...namespaces, '--', ...argv];
}

/** Ends the engine and all containers: everything in its namespaces ends with their first process. */
export async function stop(): Promise<void> {
  const engine = await alive('engine');
  const way = await alive('way-out');
  if (way !== undefined) process.kill(way.pid, 'SIGTERM');
  if (engine !== undefined) {
    const first = identityOf(inside(engine) ?? 0);
    process.kill(engine.pid, 'SIGKILL');
    for (const one of [engine, first])
      await until('the engine to end', () => one === undefined || !isAlive(one));
  }
  for (const hierarchy of await readdir('/sys/fs/cgroup'))
    await removeCgroup(join('/sys/fs/cgroup', hierarchy, CGROUP));
  await removeCgroup(join('/sys/fs/cgroup', CGROUP));
  for (const file of ['engine.json', 'way-out.json', 'docker.sock', 'dockerd.pid'])
    await rm(join(LAB, file), { force: true });
}

/**
 * A cgroup can be removed when its processes are gone, which the kernel may notice a moment later; `find` does not
 * report that.
 */
async function removeCgroup(directory: string): Promise<void> {
  await until(`${directory} to go`, async () => {
    if (!existsSync(directory)) return true;
    const remove = ['-depth', '-type', 'd', '-exec', 'rmdir', '{}', ';'];
    await run(['find', directory, ...remove]).catch(() => undefined);
    return !existsSync(directory);
  });
}

export const removeAll = (): Promise<void> => rm(LAB, { recursive: true, force: true });
