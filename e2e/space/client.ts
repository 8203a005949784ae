import { setTimeout as pause } from 'node:timers/promises';
import type { Ask } from './example.ts';
import type { Kube } from './kube.ts';

const NAME = 'client-of-up';
const STARTS_WITHIN_MS = 300_000;

interface Place {
  /** The Space's. */
  readonly namespace: string;
  readonly image: string;
}

/**
 * Sends requests to an Assistant's Service from a pod that its NetworkPolicies admit. They admit the API server's
 * proxy only to pods of the API server's own node.
 */
export async function withClient<T>(
  kube: Kube,
  place: Place & { readonly service: string },
  work: (ask: Ask) => Promise<T>,
): Promise<T> {
  try {
    return await work(await clientOf(kube, place, place.service));
  } finally {
    await kube.remove('pod', NAME, place.namespace);
  }
}

/** The same from a pod that stays until its namespace goes. */
export async function clientOf(kube: Kube, { namespace, image }: Place, service: string): Promise<Ask> {
  if ((await kube.get('pod', NAME, namespace)) === undefined) await kube.apply(clientPod(namespace, image));
  await running(kube, namespace);
  return async (path, body) => {
    const argv = ['node', '-e', REQUEST, `http://${service}${path}`];
    const { code, stdout, stderr } = await kube.exec(namespace, NAME, argv, JSON.stringify(body ?? null));
    if (code !== 0) throw new Error(`${service}${path}: ${stderr || stdout}`);
    return JSON.parse(stdout) as unknown;
  };
}

/** Prints the answer to a GET, or to a POST of what comes on standard input. */
const REQUEST = `
  const body = require('node:fs').readFileSync(0, 'utf8');
  const post = { method: 'POST', body, headers: { 'content-type': 'application/json' } };
  fetch(process.argv[1], body === 'null' ? {} : post).then(async (answer) => {
    process.stdout.write(await answer.text());
    process.exitCode = answer.ok ? 0 : 1;
  });`;

const clientPod = (namespace: string, image: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: NAME, namespace, labels: { 'platform.space/client': 'true' } },
  spec: {
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 0,
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'client',
        image,
        command: ['node', '-e', 'setInterval(() => {}, 1e9)'],
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
      },
    ],
  },
});

async function running(kube: Kube, namespace: string): Promise<void> {
  const deadline = performance.now() + STARTS_WITHIN_MS;
  for (;;) {
    const phase = (await kube.get('pod', NAME, namespace))?.['status']?.phase;
    if (phase === 'Running') return;
    if (performance.now() > deadline) throw new Error(`the pod ${NAME} is ${phase}`);
    await pause(200);
  }
}
