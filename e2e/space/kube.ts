import { spawn } from 'node:child_process';
import type { KubeObject } from './kube-object.ts';
import { createReader } from './reader.ts';

/** The result of a program: its exit code and its output. */
export interface Finished {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** `kubectl` as a user runs it, so that the suites test what a user sees; reads mostly need none. */
export interface Kube {
  run(args: readonly string[], input?: string): Promise<Finished>;
  /** Server-side apply of objects; returns kubectl's output, also if it refused. */
  tryApply(...objects: object[]): Promise<Finished>;
  apply(...objects: object[]): Promise<void>;
  get(kind: string, name: string, namespace?: string): Promise<KubeObject | undefined>;
  list(kind: string, namespace: string, selector?: string): Promise<KubeObject[]>;
  /** Requests the deletion and does not wait. */
  remove(kind: string, name: string, namespace?: string): Promise<void>;
  exec(namespace: string, pod: string, argv: readonly string[], input?: string): Promise<Finished>;
  /** A request to a Service through the API server's proxy. */
  proxy(namespace: string, service: string, path: string, body?: unknown): Promise<unknown>;
}

export function createKube(kubectl: string, kubeconfig: string): Kube {
  const run = (args: readonly string[], input = '') =>
    finish(kubectl, ['--kubeconfig', kubeconfig, ...args], input);

  const reader = createReader(kubeconfig);

  async function must(args: readonly string[], input?: string): Promise<string> {
    const { code, stdout, stderr } = await run(args, input);
    if (code !== 0) throw new Error(`kubectl ${args.slice(0, 4).join(' ')}: ${stderr || stdout}`);
    return stdout;
  }

  const inNamespace = (namespace: string | undefined) => (namespace === undefined ? [] : ['-n', namespace]);
  const applyArgs = ['apply', '--server-side', '--force-conflicts', '-f', '-'];
  // Some versions of kubectl accept no further document after one in JSON.
  const document = (objects: readonly object[]) =>
    JSON.stringify(objects.length === 1 ? objects[0] : { apiVersion: 'v1', kind: 'List', items: objects });

  return {
    run,
    tryApply: (...objects) => run(applyArgs, document(objects)),
    async apply(...objects) {
      await must(applyArgs, document(objects));
    },
    get: reader.get,
    list: reader.list,
    async remove(kind, name, namespace) {
      await must(['delete', kind, name, ...inNamespace(namespace), '--wait=false', '--ignore-not-found']);
    },
    exec: (namespace, pod, argv, input) =>
      run(['exec', '-n', namespace, ...(input === undefined ? [] : ['-i']), pod, '--', ...argv], input),
    async proxy(namespace, service, path, body) {
      const url = `/api/v1/namespaces/${namespace}/services/${service}/proxy${path}`;
      const text =
        body === undefined
          ? await must(['get', '--raw', url])
          : await must(['create', '--raw', url, '-f', '-'], JSON.stringify(body));
      return JSON.parse(text);
    },
  };
}

export function finish(program: string, args: readonly string[], input = ''): Promise<Finished> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['pipe', 'pipe', 'pipe'] });
    let stdout = '';
    let stderr = '';
    child.stdout.setEncoding('utf8').on('data', (text) => {
      stdout += text;
    });
    child.stderr.setEncoding('utf8').on('data', (text) => {
      stderr += text;
    });
    child.on('error', reject);
    child.on('close', (code) => resolve({ code: code ?? -1, stdout, stderr }));
    child.stdin.on('error', () => {}); // it may end before it has read everything; its exit code tells
    child.stdin.end(input);
  });
}
