import { createPublicKey, X509Certificate } from 'node:crypto';
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { nodeLayout } from './layout.ts';
import { ensureNodePki, ensurePki } from './pki.ts';

let directory: string;
let pki: string;
const read = (file: string) => readFileSync(join(pki, file));
const certificate = (name: string) => new X509Certificate(read(`${name}.crt`));

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'pki-'));
  pki = join(directory, 'first', 'pki');
  await ensurePki(pki, 'lab');
});
afterAll(() => rmSync(directory, { recursive: true }));

test('every certificate is signed by its CA, and is no CA itself', () => {
  for (const name of ['apiserver', 'admin', 'kubelet', 'calico']) {
    expect(certificate(name).checkIssued(certificate('ca'))).toBe(true);
    expect(certificate(name).verify(certificate('ca').publicKey)).toBe(true);
    expect(certificate(name).ca).toBe(false);
  }
  expect(certificate('front-proxy').verify(certificate('front-proxy-ca').publicKey)).toBe(true);
  expect(certificate('front-proxy').verify(certificate('ca').publicKey)).toBe(false);
});

test('the API server may be called by all its names', () => {
  const api = certificate('apiserver');
  for (const host of [
    'kubernetes',
    'kubernetes.default.svc',
    'kubernetes.default.svc.cluster.local',
    'localhost',
  ])
    expect(api.checkHost(host)).toBe(host);
  for (const address of ['127.0.0.1', '10.96.0.1', '10.250.0.10']) expect(api.checkIP(address)).toBe(address);
});

test('the node and the administrator have the names and groups that Kubernetes expects', () => {
  expect(certificate('kubelet').subject).toBe('O=system:nodes\nCN=system:node:lab');
  expect(certificate('admin').subject).toBe('O=system:masters\nCN=kubernetes-admin');
});

test('service account tokens can be checked with the public half of the key that signs them', () => {
  const derived = createPublicKey(read('sa.key')).export({ type: 'spki', format: 'pem' });
  expect(derived).toBe(String(read('sa.pub')));
});

test('only root reads the keys', () => {
  expect(statSync(pki).mode & 0o777).toBe(0o700);
});

test('an existing directory is kept, and nothing incomplete is left beside it', async () => {
  const before = certificate('ca').fingerprint256;
  await ensurePki(pki, 'lab');
  expect(certificate('ca').fingerprint256).toBe(before);
  expect(readdirSync(join(pki, '..'))).toEqual(['pki']);
});

test('a further node has only its own identity, and no key that signs another', async () => {
  const own = join(directory, 'second', 'pki');
  await ensureNodePki(pki, { ...nodeLayout('lab', 2), pki: own });
  const kubelet = new X509Certificate(readFileSync(join(own, 'kubelet.crt')));
  expect(kubelet.subject).toBe('O=system:nodes\nCN=system:node:lab-2');
  expect(kubelet.verify(certificate('ca').publicKey)).toBe(true);
  expect(kubelet.checkIP('10.250.0.11')).toBe('10.250.0.11');
  const keys = readdirSync(own).filter((file) => file.endsWith('.key'));
  expect(keys.sort()).toEqual(['calico.key', 'kube-proxy.key', 'kubelet.key']);
});
