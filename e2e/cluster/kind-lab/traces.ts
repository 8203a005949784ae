/** What a cluster could leave behind on a machine and in its engine: a line for each thing, for comparison. */
import { lstatSync, readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { run } from '../run.ts';

export type Traces = ReadonlySet<string>;

/** Counters and other values that the kernel itself changes. */
const COUNTED =
  /^(kernel\/(random\/|ns_last_pid|pty\/nr|perf_event_max_sample_rate|sched_)|fs\/(dentry-state|inode-(nr|state)|file-nr|aio-nr|quota\/|binfmt_misc\/)|net\/netfilter\/nf_conntrack_count)/;

/** Mounts, settings, network interfaces and cgroups, as the namespaces of this process have them. */
export function machineTraces(): Traces {
  const mounts = textOf('/proc/self/mounts')
    .split('\n')
    .filter((line) => line !== '');
  return new Set([
    ...mounts.map((line) => `mount ${line}`),
    ...settings('/proc/sys').map((line) => `sysctl ${line}`),
    ...interfaces().map((name) => `interface ${name}`),
    ...groups('/sys/fs/cgroup').map((path) => `cgroup ${path}`),
  ]);
}

/** This does not read /sys, which shows the network namespace in which it was mounted. */
function interfaces(): readonly string[] {
  const [, , ...rows] = textOf('/proc/self/net/dev').split('\n');
  return rows.map((row) => row.split(':')[0]?.trim() ?? '');
}

/** Returns the text of a file, or nothing if it may not be read. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8').trim();
  } catch {
    return '';
  }
}

function settings(root: string, directory = root): string[] {
  return readdirSync(directory, { withFileTypes: true }).flatMap((entry) => {
    const path = join(directory, entry.name);
    const key = relative(root, path);
    if (COUNTED.test(entry.isDirectory() ? `${key}/` : key)) return [];
    return entry.isDirectory() ? settings(root, path) : [`${key} = ${textOf(path)}`];
  });
}

/** Cgroups of the lab and of the engine, in one hierarchy for each controller or in a single one. */
function groups(root: string): string[] {
  const roots = [root, ...readdirSync(root).map((name) => join(root, name))];
  const directories = roots.filter((path) => lstatSync(path).isDirectory());
  const found = directories.flatMap((path) => readdirSync(path).map((name) => join(path, name)));
  return found.filter((path) => /\/(space\.kind-lab|kubelet|docker)[^/]*$/.test(path));
}

/** Containers, networks and volumes, by name. */
export async function engineTraces(env: NodeJS.ProcessEnv): Promise<Traces> {
  const kinds = {
    container: ['ps', '--all', '--format', '{{.Names}}'],
    network: ['network', 'ls', '--format', '{{.Name}}'],
    volume: ['volume', 'ls', '--format', '{{.Name}}'],
  };
  const traces: string[] = [];
  for (const [kind, args] of Object.entries(kinds)) {
    const names = (await run(['docker', ...args], { env })).split('\n').filter((name) => name !== '');
    traces.push(...names.map((name) => `${kind} ${name}`));
  }
  return new Set(traces);
}

/** What exists only now, and what no longer does. */
export const changes = (before: Traces, after: Traces): readonly string[] => [
  ...[...after.difference(before)].map((line) => `now there: ${line}`),
  ...[...before.difference(after)].map((line) => `no longer: ${line}`),
];
