import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { POD } from '../kinds.ts';
import { leaseName } from '../names.ts';
import { type KubeObject, pathOf } from '../runtime/kube-object.ts';
import type { TestSpace } from './space.ts';
import type { TestEnvironment } from './test-environment.ts';

/** The operator's program in a process of its own, in a pod that the API server knows of. */
export interface OperatorProcess {
  readonly pod: string;
  /** When (by `performance.now()`) it first logged a message that begins so, and what more it logged with it. */
  said(message: string): Promise<{ readonly at: number; readonly sinceStartMs: number }>;
  /** Sends the signal; answers when (as above) it was sent. */
  signal(signal: 'SIGTERM' | 'SIGKILL'): number;
  /** Its exit code, or the signal that ended it. */
  ended(): Promise<number | string>;
  /** Deletes the pod's object, as happens when its node is known to be lost. */
  removePod(): Promise<void>;
}

/** Starts operators of one Space as their containers do, and ends whatever of them still runs. */
export interface OperatorProcesses {
  start(): Promise<OperatorProcess>;
  lease(): Promise<{
    readonly holderIdentity?: string;
    readonly renewTime: string;
    readonly acquireTime: string;
  }>;
  close(): Promise<void>;
}

const SOURCES = resolve(import.meta.dirname, '../main.ts');

export async function operatorProcesses(
  { server, database }: TestEnvironment,
  { names }: TestSpace,
  program = SOURCES,
): Promise<OperatorProcesses> {
  const directory = await mkdtemp(join(tmpdir(), 'space-operators-'));
  const file = async (name: string, text: string) => {
    await writeFile(join(directory, name), text, { mode: 0o600 });
    return join(directory, name);
  };
  const environment = {
    ...process.env,
    KUBECONFIG: await file('kubeconfig', server.kubeconfig),
    SPACE_NAME: names.space,
    SPACE_NAMESPACE: names.namespace,
    SYSTEM_NAMESPACE: names.systemNamespace,
    SERVICES_NAMESPACE: names.servicesNamespace,
    SANDBOX_RUNTIME_CLASS: names.runtimeClass,
    SANDBOX_HANDLER: names.handler,
    SANDBOX_ATTESTER_IMAGE: names.attesterImage,
    DB_BROKER_URL: database.broker.url,
    DB_PROVISIONER_TOKEN_FILE: await file('token', database.mounts.provisioner),
    HEALTH_PORT: '0',
    METRICS_PORT: '0',
  };
  const running = new Set<() => Promise<void>>();
  let pods = 0;

  async function start(): Promise<OperatorProcess> {
    pods += 1;
    const pod = `operator-${pods}`;
    const { client } = server;
    const made = await client.call<KubeObject>({
      method: 'POST',
      path: pathOf(POD, names.systemNamespace),
      body: { metadata: { name: pod }, spec: { containers: [{ name: 'operator', image: 'x' }] } },
    });
    const child = spawn(process.execPath, [program], {
      env: { ...environment, POD_NAME: pod, POD_UID: made.metadata.uid ?? '' },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ended = once(child, 'exit').then(([code, signal]) => (code ?? signal) as number | string);
    const stop = async () => {
      child.kill('SIGKILL');
      await ended;
    };
    running.add(stop);
    const lines: { readonly at: number; readonly text: string }[] = [];
    const heard = new EventTarget();
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on('line', (text) => {
        lines.push({ at: performance.now(), text });
        heard.dispatchEvent(new Event('line'));
      });
    }
    void ended.then(() => heard.dispatchEvent(new Event('line')));
    const find = (message: string) => lines.find(({ text }) => text.includes(`"msg":"${message}`));
    return {
      pod,
      async said(message) {
        for (;;) {
          const line = find(message);
          if (line) return { at: line.at, ...(JSON.parse(line.text) as { sinceStartMs: number }) };
          const over = child.exitCode ?? child.signalCode;
          if (over !== null)
            throw new Error(
              `it ended (${over}) and never said “${message}”:\n${lines.map(({ text }) => text).join('\n')}`,
            );
          await once(heard, 'line');
        }
      },
      signal(signal) {
        const at = performance.now();
        child.kill(signal);
        return at;
      },
      ended: () => ended,
      async removePod() {
        const path = pathOf(POD, names.systemNamespace, pod);
        await client.call({ method: 'DELETE', path, body: { gracePeriodSeconds: 0 } });
      },
    };
  }

  return {
    start,
    async lease() {
      const path = `/apis/coordination.k8s.io/v1/namespaces/${names.systemNamespace}/leases/${leaseName(names.space)}`;
      const { spec } = await server.client.call<{
        spec: { holderIdentity?: string; renewTime: string; acquireTime: string };
      }>({ method: 'GET', path });
      return spec;
    },
    async close() {
      await Promise.all([...running].map((stop) => stop()));
      await rm(directory, { recursive: true, force: true });
    },
  };
}
