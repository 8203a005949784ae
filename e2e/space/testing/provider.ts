import { randomBytes } from 'node:crypto';
import { makePki } from '../../../testing/certificates.ts';
import { eventually } from '../../../testing/eventually.ts';
import type { Kube } from '../kube.ts';
import { readOrCreateSecret } from './kept.ts';

/** An S3 server outside of any Space, behind TLS, with a bucket and a key for a Capsule. */
export interface Provider {
  readonly namespace: string;
  /** Values of a release whose Capsules may use it. */
  readonly byok: object;
  /** Values of a release that stores all its files there. */
  readonly external: object;
  /** What a person would enter into the form. */
  readonly fields: Readonly<Record<string, string>>;
  /** The number of its objects with exactly this content. */
  holds(text: string): Promise<number>;
}

const HOST = 's3.provider.example.org';
const PORT = 7_070;
const READY_MS = 600_000;

/** `image` is of an S3 server that the cluster has already. One that runs there already is found as it was made. */
export async function startProvider(kube: Kube, namespace: string, image: string): Promise<Provider> {
  const inside = `s3.${namespace}.svc`;
  const of = { name: 's3', namespace };
  const kept = await readOrCreateSecret(kube, of, async () => {
    const pki = await makePki();
    const { cert, key } = await pki.issue(HOST, inside);
    await pki.remove();
    return {
      'ca.crt': pki.authority,
      'tls.crt': cert,
      'tls.key': key,
      ROOT_ACCESS_KEY: `CANARY${randomBytes(7).toString('hex')}`,
      ROOT_SECRET_KEY: randomBytes(30).toString('base64url'),
    };
  });
  const start = `mkdir -p /data/mine && exec versitygw --port :${PORT} --cert /tls/tls.crt --key /tls/tls.key posix /data`;
  await kube.apply(
    {
      apiVersion: 'v1',
      kind: 'Service',
      metadata: of,
      spec: { selector: { app: 's3' }, ports: [{ port: PORT }] },
    },
    {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { ...of, labels: { app: 's3' } },
      spec: {
        automountServiceAccountToken: false,
        terminationGracePeriodSeconds: 0,
        securityContext: { runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000 },
        containers: [
          {
            name: 's3',
            image,
            imagePullPolicy: 'IfNotPresent',
            command: ['sh', '-c', start],
            envFrom: [{ secretRef: { name: 's3' } }],
            readinessProbe: { tcpSocket: { port: PORT }, periodSeconds: 1 },
            volumeMounts: [
              { name: 'data', mountPath: '/data' },
              { name: 'tls', mountPath: '/tls', readOnly: true },
            ],
          },
        ],
        volumes: [
          { name: 'data', emptyDir: {} },
          { name: 'tls', secret: { secretName: 's3' } },
        ],
      },
    },
  );
  const address = await eventually(
    async () => {
      const pod = await kube.get('pod', 's3', namespace);
      return pod?.status?.containerStatuses?.[0]?.ready === true && (pod.status.podIP as string);
    },
    { what: 'the provider has an address', within: READY_MS },
  );
  return {
    namespace,
    byok: { hosts: { [HOST]: `${address}:${PORT}` }, extraCA: kept['ca.crt'] },
    external: {
      endpoint: `https://${inside}:${PORT}`,
      bucket: 'mine',
      ca: kept['ca.crt'],
      pods: { namespace, labels: { app: 's3' }, port: PORT },
    },
    fields: {
      endpoint: `https://${HOST}`,
      region: 'us-east-1',
      bucket: 'mine',
      addressing: 'path',
      'access-key-id': kept.ROOT_ACCESS_KEY,
      'secret-access-key': kept.ROOT_SECRET_KEY,
    },
    holds: (text) => filesWith(kube, { namespace, pod: 's3' }, text),
  };
}

/** The number of files in an S3 server's pod that contain this text. */
export async function filesWith(
  kube: Kube,
  { namespace, pod }: { readonly namespace: string; readonly pod: string },
  text: string,
): Promise<number> {
  const { code, stdout, stderr } = await kube.exec(namespace, pod, ['grep', '-rlF', text, '/data']);
  // 1 means that there are none.
  if (code > 1) throw new Error(stderr);
  return stdout.split('\n').filter((line) => line !== '').length;
}
