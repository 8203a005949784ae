import { generateKeyPair, type KeyObject } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, copyFile, mkdir, mkdtemp, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { run } from '../run.ts';
import { type Layout, NETWORK } from './layout.ts';

interface Certificate {
  readonly file: string;
  readonly commonName: string;
  readonly organisation?: string;
  readonly names?: readonly string[];
  readonly authority?: 'ca' | 'front-proxy-ca';
}

function certificates(node: string): readonly Certificate[] {
  const service = 'kubernetes.default.svc.cluster.local'.split('.');
  return [
    {
      file: 'apiserver',
      commonName: 'kube-apiserver',
      names: [
        ...[1, 2, 3, 5].map((labels) => `DNS:${service.slice(0, labels).join('.')}`),
        'DNS:localhost',
        `IP:${NETWORK.api}`,
        'IP:127.0.0.1',
        `IP:${NETWORK.node}`,
      ],
    },
    {
      file: 'apiserver-kubelet',
      commonName: 'kube-apiserver-kubelet-client',
      organisation: 'system:masters',
    },
    { file: 'front-proxy', commonName: 'front-proxy', authority: 'front-proxy-ca' },
    { file: 'admin', commonName: 'kubernetes-admin', organisation: 'system:masters' },
    { file: 'controller-manager', commonName: 'system:kube-controller-manager' },
    { file: 'scheduler', commonName: 'system:kube-scheduler' },
    { file: 'kube-proxy', commonName: 'system:kube-proxy' },
    kubelet(node, NETWORK.node),
    { file: 'calico', commonName: 'calico' },
  ];
}

const kubelet = (node: string, address: string): Certificate => ({
  file: 'kubelet',
  commonName: `system:node:${node}`,
  organisation: 'system:nodes',
  names: [`DNS:${node}`, `IP:${address}`, 'IP:127.0.0.1'],
});

/** An empty configuration, since openssl would otherwise add Debian's extensions. */
const OPENSSL_CONFIG = '[req]\ndistinguished_name = subject\n[subject]\n';
const DAYS = '3650';

/** Creates the cluster's certificates and keys, completely or not at all: an existing directory is complete. */
export async function ensurePki(directory: string, node: string): Promise<void> {
  await whole(directory, async (draft) => {
    await Promise.all([
      authority(draft, 'ca', 'kubernetes'),
      authority(draft, 'front-proxy-ca', 'front-proxy-ca'),
    ]);
    await Promise.all([
      ...certificates(node).map((one) => certificate(draft, one)),
      serviceAccountKeys(draft),
    ]);
  });
}

/** Creates the keys of a further node: a certificate of its own kubelet, and no key that signs another node's. */
export async function ensureNodePki(cluster: string, { pki, node, address }: Layout): Promise<void> {
  await whole(pki, async (draft) => {
    const shared = ['ca.crt', ...['kube-proxy', 'calico'].flatMap((user) => [`${user}.crt`, `${user}.key`])];
    await Promise.all(shared.map((file) => copyFile(join(cluster, file), join(draft, file))));
    await certificate(draft, kubelet(node, address), cluster);
  });
}

async function whole(directory: string, fill: (draft: string) => Promise<void>): Promise<void> {
  if (existsSync(directory)) return;
  await mkdir(dirname(directory), { recursive: true });
  const draft = await mkdtemp(`${directory}.`);
  try {
    await chmod(draft, 0o700);
    await writeFile(join(draft, 'openssl.cnf'), OPENSSL_CONFIG);
    await fill(draft);
    await rename(draft, directory);
  } catch (error) {
    await rm(draft, { recursive: true, force: true });
    throw error;
  }
}

const request = (directory: string, file: string, subject: string): readonly [string, ...string[]] => [
  'openssl',
  ...['req', '-config', join(directory, 'openssl.cnf'), '-x509', '-days', DAYS, '-subj', subject],
  ...['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes'],
  ...['-keyout', join(directory, `${file}.key`), '-out', join(directory, `${file}.crt`)],
];

async function authority(directory: string, file: string, commonName: string): Promise<void> {
  await run([
    ...request(directory, file, `/CN=${commonName}`),
    ...['-addext', 'basicConstraints=critical,CA:TRUE', '-addext', 'keyUsage=critical,keyCertSign,cRLSign'],
  ]);
}

async function certificate(directory: string, one: Certificate, authorities = directory): Promise<void> {
  const organisation = one.organisation === undefined ? '' : `/O=${one.organisation}`;
  const signer = join(authorities, one.authority ?? 'ca');
  await run([
    ...request(directory, one.file, `${organisation}/CN=${one.commonName}`),
    ...['-CA', `${signer}.crt`, '-CAkey', `${signer}.key`],
    ...['-addext', 'basicConstraints=critical,CA:FALSE', '-addext', 'keyUsage=critical,digitalSignature'],
    ...['-addext', 'extendedKeyUsage=clientAuth,serverAuth'],
    ...(one.names === undefined ? [] : ['-addext', `subjectAltName=${one.names.join(',')}`]),
  ]);
}

async function serviceAccountKeys(directory: string): Promise<void> {
  const pair: { publicKey: KeyObject; privateKey: KeyObject } = await promisify(generateKeyPair)('rsa', {
    modulusLength: 2048,
  });
  const secret = pair.privateKey.export({ type: 'pkcs8', format: 'pem' });
  await writeFile(join(directory, 'sa.key'), secret, { mode: 0o600 });
  await writeFile(join(directory, 'sa.pub'), pair.publicKey.export({ type: 'spki', format: 'pem' }));
}
