import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { bundle } from '../../scripts/bundle.ts';
import { eventually } from '../../testing/eventually.ts';
import { podCommand } from '../../testing/installed/image.ts';
import { freePort } from '../../testing/ports.ts';
import type { SpaceNames } from '../names.ts';

/** The program that the operator's image has. */
const PROGRAM = resolve('dist/operator/main.mjs');
/** The unit of `/proc/PID/stat`: Linux has always reported hundredths of a second to user space. */
const TICKS_PER_SECOND = 100;

/** What an operator says of itself. */
interface Measured {
  /** The sum over all label sets of a metric that have these labels. */
  sum(name: string, labels?: Readonly<Record<string, string>>): number;
  /** The increase of each label set of a metric since `before`. */
  above(before: Measured, name: string): string[];
}

/** What the kernel says of a process. */
interface Usage {
  readonly cpuSeconds: number;
  readonly rssMiB: number;
  readonly peakRssMiB: number;
}

/** An operator in a process of its own. */
export interface OperatorProcess {
  readonly pid: number;
  measure(): Promise<Measured>;
  usage(): Promise<Usage>;
  /** Whether its stores are filled. */
  warm(): Promise<boolean>;
  /** Whether it holds the Lease. */
  leads(): Promise<boolean>;
  /** The last of its log. */
  said(): string;
  /** Ends it as `kubectl delete pod` does. */
  stop(): Promise<void>;
  kill(): Promise<void>;
  readonly gone: Promise<void>;
  /** Rejects, with its last output, if it ends without having been told to. */
  readonly crash: Promise<never>;
}

export interface OperatorSetting {
  readonly names: SpaceNames;
  readonly kubeconfig: string;
  readonly dbBrokerUrl: string;
  readonly dbProvisionerToken: string;
  readonly objectStore?: { readonly url: string; readonly provisionerToken: string };
}

/** The pod that the Lease names as holder. */
export interface Pod {
  readonly name: string;
  readonly uid: string;
}

export interface OperatorProgram {
  start(pod: Pod): Promise<OperatorProcess>;
  remove(): Promise<void>;
}

/** Bundles the operator and lays out what its pod would mount. */
export async function operatorProgram(setting: OperatorSetting): Promise<OperatorProgram> {
  await bundle('operator');
  const directory = await mkdtemp(join(tmpdir(), 'space-bench-operator-'));
  const file = async (name: string, text: string) => {
    await writeFile(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const { names, objectStore } = setting;
  const { flags, environment: ofImage } = await podCommand('operator/Dockerfile', 'operator');
  const environment: Record<string, string> = {
    ...ofImage,
    PATH: process.env['PATH'] ?? '',
    KUBECONFIG: await file('kubeconfig', setting.kubeconfig),
    SPACE_NAME: names.space,
    SPACE_NAMESPACE: names.namespace,
    SYSTEM_NAMESPACE: names.systemNamespace,
    SERVICES_NAMESPACE: names.servicesNamespace,
    SANDBOX_RUNTIME_CLASS: names.runtimeClass,
    SANDBOX_HANDLER: names.handler,
    SANDBOX_ATTESTER_IMAGE: names.attesterImage,
    DB_BROKER_URL: setting.dbBrokerUrl,
    DB_PROVISIONER_TOKEN_FILE: await file('db-token', setting.dbProvisionerToken),
    LISTEN_HOST: '127.0.0.1',
    LOG_LEVEL: 'warn',
    ...(objectStore
      ? {
          OBJECT_STORE_BROKER_URL: objectStore.url,
          OBJECT_STORE_PROVISIONER_TOKEN_FILE: await file('objects-token', objectStore.provisionerToken),
        }
      : {}),
  };
  /** A pod keeps its ports: while another part is down, its ports look free. */
  const ports = new Map<string, Ports>();
  return {
    async start(pod) {
      const known = ports.get(pod.uid) ?? { health: await freePort(), metrics: await freePort() };
      ports.set(pod.uid, known);
      return start(flags, environment, pod, known);
    },
    remove: () => rm(directory, { recursive: true, force: true }),
  };
}

interface Ports {
  readonly health: number;
  readonly metrics: number;
}

async function start(
  flags: readonly string[],
  environment: Readonly<Record<string, string>>,
  pod: Pod,
  { health, metrics }: Ports,
): Promise<OperatorProcess> {
  const args = [...flags, PROGRAM];
  const child: ChildProcess = spawn(process.execPath, args, {
    env: {
      ...environment,
      POD_NAME: pod.name,
      POD_UID: pod.uid,
      HEALTH_PORT: String(health),
      METRICS_PORT: String(metrics),
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let said = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream?.on('data', (chunk) => {
      said = `${said}${chunk}`.slice(-20_000);
    });
  }
  const gone = once(child, 'exit').then(() => undefined);
  const { pid } = child;
  if (pid === undefined) throw new Error('the operator did not start');
  const ask = (port: number, path: string) =>
    fetch(`http://127.0.0.1:${port}${path}`, { signal: AbortSignal.timeout(30_000) });
  let told = false;
  const crash = gone.then(() =>
    told ? new Promise<never>(() => {}) : Promise.reject(new Error(`the operator ended by itself: ${said}`)),
  );
  crash.catch(() => undefined);
  const end = async (signal: NodeJS.Signals) => {
    told = true;
    child.kill(signal);
    await gone;
  };
  const operator: OperatorProcess = {
    pid,
    gone,
    crash,
    measure: async () => parseMetrics(await (await ask(metrics, '/metrics')).text()),
    usage: () => usageOf(pid),
    warm: async () => (await ask(health, '/readyz')).ok,
    said: () => said,
    leads: async () => (await operator.measure()).sum('leader_election_master_status') === 1,
    stop: () => end('SIGTERM'),
    kill: () => end('SIGKILL'),
  };
  const listening = () => ask(health, '/healthz').then(({ ok }) => ok);
  try {
    await Promise.race([crash, eventually(listening, { what: 'the operator answers' })]);
  } catch (error) {
    await operator.kill();
    throw error;
  }
  return operator;
}

/** The text format of Prometheus, as far as sums need it. */
function parseMetrics(text: string): Measured {
  const samples = text.split('\n').flatMap((line) => {
    const [, name, labels = '', value] = /^([a-z_]+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? [];
    if (name === undefined || value === undefined) return [];
    const pairs = [...labels.matchAll(/([a-z_]+)="([^"]*)"/g)].map(([, key, of]) => [key, of] as const);
    return [{ name, labels: Object.fromEntries(pairs), value: Number(value) }];
  });
  const sum = (name: string, wanted: Readonly<Record<string, string>> = {}) =>
    samples
      .filter((sample) => sample.name === name)
      .filter(({ labels }) => Object.entries(wanted).every(([key, value]) => labels[key] === value))
      .reduce((total, { value }) => total + value, 0);
  return {
    sum,
    above: (before, name) =>
      samples
        .filter((sample) => sample.name === name)
        .map(({ labels, value }) => ({ labels, more: value - before.sum(name, labels) }))
        .filter(({ more }) => more > 0)
        .map(({ labels, more }) => `${name} ${Object.values(labels).join(' ')}: ${more}`),
  };
}

async function usageOf(pid: number): Promise<Usage> {
  const [status, stat] = await Promise.all([
    readFile(`/proc/${pid}/status`, 'utf8'),
    readFile(`/proc/${pid}/stat`, 'utf8'),
  ]);
  const mebibytes = (field: string) =>
    Number(new RegExp(`^${field}:\\s+(\\d+) kB`, 'm').exec(status)?.[1] ?? Number.NaN) / 1024;
  // After the name in parentheses, which may have spaces: user time is field 14 of all, system time 15.
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  return {
    cpuSeconds: (Number(fields[11]) + Number(fields[12])) / TICKS_PER_SECOND,
    rssMiB: mebibytes('VmRSS'),
    peakRssMiB: mebibytes('VmHWM'),
  };
}
