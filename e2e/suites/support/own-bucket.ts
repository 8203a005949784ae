import { randomBytes } from 'node:crypto';
import { makePki } from '../../../testing/certificates.ts';
import { kube, runningPod } from './space.ts';
import { until } from './until.ts';

/** An S3 server that is no part of any Space, behind TLS, with a bucket and a key of a Capsule's own. */
export interface Provider {
  readonly namespace: string;
  /** Values of a release whose Capsules may name it. */
  readonly byok: object;
  /** Values of a release that keeps all its files there. */
  readonly external: object;
  /** What a person would fill into the form. */
  readonly fields: Readonly<Record<string, string>>;
  /** How many of its objects have exactly this in them. */
  holds(text: string): Promise<number>;
}

const HOST = 's3.provider.example.org';
const PORT = 7_070;

/** `image` is of an S3 server that the cluster has already. */
export async function startProvider(namespace: string, image: string): Promise<Provider> {
  const pki = await makePki();
  const inside = `s3.${namespace}.svc`;
  const { cert, key } = await pki.issue(HOST, inside);
  await pki.remove();
  const [id, secret] = [`CANARY${randomBytes(7).toString('hex')}`, randomBytes(30).toString('base64url')];
  const of = { name: 's3', namespace };
  const start = `mkdir /data/mine && exec versitygw --port :${PORT} --cert /tls/tls.crt --key /tls/tls.key posix /data`;
  await kube.apply(
    { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } },
    {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: of,
      stringData: { 'tls.crt': cert, 'tls.key': key, ROOT_ACCESS_KEY: id, ROOT_SECRET_KEY: secret },
    },
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
  const address = await until('the provider to have an address', async () => {
    const pod = await kube.get('pod', 's3', namespace);
    return pod?.status?.containerStatuses?.[0]?.ready === true && (pod.status.podIP as string);
  });
  return {
    namespace,
    byok: { hosts: { [HOST]: `${address}:${PORT}` }, extraCA: pki.authority },
    external: {
      endpoint: `https://${inside}:${PORT}`,
      bucket: 'mine',
      ca: pki.authority,
      pods: { namespace, labels: { app: 's3' }, port: PORT },
    },
    fields: {
      endpoint: `https://${HOST}`,
      region: 'us-east-1',
      bucket: 'mine',
      addressing: 'path',
      'access-key-id': id,
      'secret-access-key': secret,
    },
    holds: (text) => filesWith(namespace, 's3', text),
  };
}

/** How many files of an S3 server's pod have this text in them. */
export async function filesWith(namespace: string, pod: string, text: string): Promise<number> {
  const { code, stdout, stderr } = await kube.exec(namespace, pod, ['grep', '-rlF', text, '/data']);
  // 1: there are none.
  if (code > 1) throw new Error(stderr);
  return stdout.split('\n').filter((line) => line !== '').length;
}

/** Runs in the operator's pod, which alone reaches the broker's control listener: one operation, as a console would. */
const OPERATE = `
  let text = '';
  process.stdin.on('data', (chunk) => { text += chunk; }).on('end', async () => {
    const { url, token, body } = JSON.parse(text);
    const headers = { 'content-type': 'application/json', authorization: 'Bearer ' + token };
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) });
    console.log(JSON.stringify([answer.status, await answer.json()]));
  });
`;

/** The five operations on a Capsule's credentials, with its principal. */
export function credentialsOf(space: string, capsule: string) {
  const namespace = `${space}-system`;
  return async (operation: string, body: object): Promise<[number, Record<string, unknown>]> => {
    const [pod] = await kube.list('pods', namespace, 'platform.space/component=operator');
    const secret = await kube.get('secret', `capsule-${capsule}-objectstore`, namespace);
    const input = {
      url: `https://objectstore-broker.${space}-services.svc:8080/v1/capsules/credentials/${operation}`,
      token: Buffer.from(secret?.['data'].principal ?? '', 'base64').toString(),
      body: { capsule_id: capsule, ...body },
    };
    const trusting = ['env', 'NODE_EXTRA_CA_CERTS=/etc/space/ca/ca.crt', 'node', '-e', OPERATE];
    const { stdout, stderr } = await kube.exec(
      namespace,
      pod?.metadata.name ?? '',
      trusting,
      JSON.stringify(input),
    );
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout);
  };
}

/** Runs in an Assistant: one request with its grant, or with another. Tells the grant of the moment, too. */
const ASK = `
  const { existsSync, readFileSync } = require('node:fs');
  const [method, path, body, given] = process.argv.slice(1);
  const { OBJECT_STORE_URL, OBJECT_STORE_TOKEN_FILE, OBJECT_STORE_GRANT_FILE } = process.env;
  const mine = existsSync(OBJECT_STORE_GRANT_FILE) ? readFileSync(OBJECT_STORE_GRANT_FILE, 'utf8') : '';
  const grant = given || mine;
  const headers = { authorization: 'Bearer ' + readFileSync(OBJECT_STORE_TOKEN_FILE, 'utf8').trim(), ...(grant ? { 'platform-grant': grant } : {}) };
  fetch(OBJECT_STORE_URL + path, { method, headers, ...(body ? { body } : {}) })
    .then(async (answer) => console.log(JSON.stringify({ status: answer.status, text: await answer.text(), grant: mine })));
`;

/** One request for an object, as an Assistant makes it that reads its grant's file each time. */
export async function granted(
  namespace: string,
  id: string,
  ...request: readonly string[]
): Promise<{ readonly status: number; readonly text: string; readonly grant: string }> {
  const pod = (await runningPod(namespace, id)).metadata.name;
  return answered(namespace, pod, ['node', '-e', ASK, ...request]);
}

/** What a program in a pod prints that asks a service; a connection that a node is late with is tried again. */
export const answered = <T>(namespace: string, pod: string, program: readonly string[]): Promise<T> =>
  until('an answer', async () => {
    const { stdout, stderr } = await kube.exec(namespace, pod, program);
    if (stdout === '') throw new Error(stderr);
    return JSON.parse(stdout) as T;
  });
