import { execFileSync } from 'node:child_process';
import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
import type { Needed } from '../platform.ts';
import { type Disk, disksOf, gibibytes, growths, isFull } from './disks.ts';

/** Facts about this machine that are checked before anything is changed on it. */
export interface Facts {
  /** The cluster's name, from which the names of directories, cgroups and the node are derived. */
  readonly name: string;
  readonly uid: number;
  readonly platform: string;
  readonly arch: string;
  /** Output of `go version`; undefined if there is no Go. */
  readonly go: string | undefined;
  /** Whether programs must be built because an entry of the cache is missing. */
  readonly mustBuild: boolean;
  readonly missingPackages: readonly string[];
  readonly hasApt: boolean;
  readonly disks: readonly Disk[];
  /** The API's port, and the process that listens on it if it is not this cluster's. */
  readonly port: number;
  readonly portHolder: string | undefined;
  /** The API's port if this cluster is already running. */
  readonly runningOn: number | undefined;
  readonly cgroups: 'v1' | 'v2' | 'none';
  /** The wanted number of nodes, and the present one. */
  readonly nodes: number;
  readonly had: number | undefined;
}

export interface Problem {
  readonly wrong: string;
  readonly mend: string;
}

const NAME = /^[a-z][a-z0-9-]{0,28}[a-z0-9]$/;
const GO = 'go';
const GO_NEEDED = [1, 26, 6] as const;

/** All problems at once. */
export function problemsOf(facts: Facts): readonly Problem[] {
  const problems: Problem[] = [];
  const say = (wrong: string, mend: string) => problems.push({ wrong, mend });
  if (facts.platform !== 'linux' || facts.arch !== 'x64') {
    say(
      `A native cluster runs on Linux on x86-64; this is ${facts.platform} on ${facts.arch}.`,
      'Start a Docker engine (kind is used then), or give a cluster of your own with --kubeconfig.',
    );
    return problems; // nothing else that we could say would hold
  }
  if (!NAME.test(facts.name))
    say(
      `${JSON.stringify(facts.name)} cannot be the name of a cluster.`,
      'Take up to 30 small letters, digits and hyphens, beginning with a letter.',
    );
  if (facts.runningOn !== undefined && facts.runningOn !== facts.port)
    say(
      `The cluster ${facts.name} runs already, with its API on port ${facts.runningOn}.`,
      'Leave out --api-port, or end the cluster first with npm run down.',
    );
  if (facts.had !== undefined && facts.had > facts.nodes)
    say(
      `The cluster ${facts.name} has ${facts.had} nodes, and none is taken away.`,
      'Leave out --nodes, or remove the cluster first with npm run down.',
    );
  if (facts.uid !== 0)
    say('A native cluster needs root: it makes namespaces, mounts and cgroups.', 'Run the command as root.');
  const lacking = facts.mustBuild ? goProblem(facts.go) : undefined;
  if (lacking !== undefined) problems.push(lacking);
  if (facts.missingPackages.length > 0 && !facts.hasApt)
    say(
      `Programs are missing, and there is no apt to bring them.`,
      `Install what the Debian packages ${facts.missingPackages.join(', ')} have.`,
    );
  for (const disk of facts.disks.filter(isFull))
    say(
      `Too little space for ${disk.paths.join(', ')}: ${gibibytes(disk.freeBytes)} GiB are free, ${disk.neededGib} are needed.`,
      'Free some, or put the caches elsewhere (XDG_CACHE_HOME, GOCACHE, GOMODCACHE).',
    );
  if (facts.portHolder !== undefined)
    say(
      `Port ${facts.port} on 127.0.0.1 is in use by ${facts.portHolder}`,
      'End that program, or choose another port with --api-port.',
    );
  if (facts.cgroups === 'none')
    say(
      'The cgroup controllers cpu, memory and pids cannot be found under /sys/fs/cgroup.',
      'Mount them (version 1 or 2) and run the command again.',
    );
  return problems;
}

/** `go` is the output of `go version`. */
export function goProblem(go: string | undefined): Problem | undefined {
  if (go !== undefined && isEnough(go)) return undefined;
  return {
    wrong:
      go === undefined ? 'Go is missing; the cluster is built from Go modules.' : `Go is too old: ${go}.`,
    mend: `Install Go ${GO_NEEDED.join('.')} or later.`,
  };
}

export function isEnough(version: string): boolean {
  const [, major, minor, patch] = /go(\d+)\.(\d+)(?:\.(\d+))?/.exec(version) ?? [];
  if (major === undefined) return false;
  const found = [Number(major), Number(minor), Number(patch ?? 0)] as const;
  for (const [index, needed] of GO_NEEDED.entries()) {
    const have = found[index] ?? 0;
    if (have !== needed) return have > needed;
  }
  return true;
}

/** Programs that the machine needs, and the Debian packages that contain them. */
export const PACKAGES: readonly Needed[] = [
  { file: 'ip', package: 'iproute2' },
  { file: 'unshare', package: 'util-linux' },
  { file: 'mount', package: 'mount' },
  { file: 'sysctl', package: 'procps' },
  { file: 'iptables', package: 'iptables' },
  { file: 'ipset', package: 'ipset' },
  { file: 'conntrack', package: 'conntrack' },
  { file: 'openssl', package: 'openssl' },
  { file: 'tini', package: 'tini' },
  { file: 'buildah', package: 'buildah' },
  { file: 'debootstrap', package: 'debootstrap' },
  { file: 'gcc', package: 'gcc' },
  { file: 'strip', package: 'binutils' },
  { file: 'pkg-config', package: 'pkg-config' },
  { file: '/usr/include/stdio.h', package: 'libc6-dev' },
  { file: '/usr/include/seccomp.h', package: 'libseccomp-dev' },
];

const PROGRAM_DIRECTORIES = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'];

export const missingPackages = (exists?: (path: string) => boolean): readonly string[] =>
  missingOf(PACKAGES, exists);

export function missingOf(
  needed: readonly Needed[],
  exists: (path: string) => boolean = existsSync,
): readonly string[] {
  const found = (file: string) =>
    file.startsWith('/') ? exists(file) : PROGRAM_DIRECTORIES.some((at) => exists(`${at}/${file}`));
  return needed.filter(({ file }) => !found(file)).map((entry) => entry.package);
}

type Given = Pick<Facts, 'name' | 'nodes' | 'had' | 'port' | 'runningOn' | 'mustBuild'> & {
  readonly stateRoot: string;
};

export function gatherFacts({ stateRoot, ...given }: Given): Facts {
  const { port, runningOn, mustBuild, nodes } = given;
  return {
    ...given,
    uid: process.getuid?.() ?? -1,
    platform: process.platform,
    arch: process.arch,
    go: goVersion(),
    missingPackages: process.platform === 'linux' ? missingPackages() : [],
    hasApt: existsSync('/usr/bin/apt-get'),
    disks: disksOf(growths(stateRoot, mustBuild, nodes)),
    portHolder: runningOn !== undefined || process.platform !== 'linux' ? undefined : listenerOn(port),
    cgroups: cgroupVersion(),
  };
}

export function goVersion(): string | undefined {
  try {
    return execFileSync(GO, ['version'], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }).trim();
  } catch {
    return undefined;
  }
}

export function cgroupVersion(root = '/sys/fs/cgroup'): 'v1' | 'v2' | 'none' {
  if (existsSync(`${root}/cgroup.controllers`)) {
    const controllers = readFileSync(`${root}/cgroup.controllers`, 'utf8').split(/\s+/);
    return ['cpu', 'memory', 'pids'].every((one) => controllers.includes(one)) ? 'v2' : 'none';
  }
  return ['cpu', 'memory', 'pids'].every((one) => existsSync(`${root}/${one}/cgroup.procs`)) ? 'v1' : 'none';
}

const LISTEN = '0A';

/** The program that listens on a TCP port of this machine, as far as this can be found out. */
export function listenerOn(port: number): string | undefined {
  const hex = port.toString(16).toUpperCase().padStart(4, '0');
  for (const table of ['/proc/net/tcp', '/proc/net/tcp6']) {
    if (!existsSync(table)) continue;
    for (const line of readFileSync(table, 'utf8').split('\n').slice(1)) {
      const fields = line.trim().split(/\s+/);
      if (fields[3] !== LISTEN || !(fields[1] ?? '').endsWith(`:${hex}`)) continue;
      return holderOf(fields[9] ?? '') ?? 'a program that cannot be told';
    }
  }
  return undefined;
}

function holderOf(inode: string): string | undefined {
  for (const pid of readdirSync('/proc').filter((name) => /^\d+$/.test(name))) {
    try {
      const descriptors = readdirSync(`/proc/${pid}/fd`);
      const holds = descriptors.some((fd) => readlinkSync(`/proc/${pid}/fd/${fd}`) === `socket:[${inode}]`);
      if (!holds) continue;
      const command = readFileSync(`/proc/${pid}/cmdline`, 'utf8').replaceAll('\0', ' ').trim();
      return `process ${pid}: ${command.slice(0, 100)}`;
    } catch {
      // The process has ended, or may not be inspected.
    }
  }
  return undefined;
}
