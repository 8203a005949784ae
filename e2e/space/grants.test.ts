/** What an upgrade makes of the keys of grants that are there, asked of a real API server. */

import { generateKeyPairSync } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { grantKeyId } from '@space/manifests';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseGrantKey } from '../../operator/grants/sign.ts';
import { type ApiServer, startApiServer } from '../../operator/testing/api-server.ts';
import { findTool } from '../cluster/tools.ts';
import { finish, type KubeObject } from './kube.ts';
import { forceFlags } from './release.ts';

const CHART = resolve(import.meta.dirname, '../../charts/space');

let directory: string;
let helm: string;
let server: ApiServer;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-grant-keys-'));
  helm = await findTool('helm', directory);
  server = await startApiServer();
  await writeFile(join(directory, 'kubeconfig'), server.kubeconfig, { mode: 0o600 });
  const body = { apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'home' } };
  await server.client.call({ method: 'POST', path: '/api/v1/namespaces', body });
});
afterAll(async () => {
  await server?.stop();
  await rm(directory, { recursive: true, force: true });
});

const secret = (namespace: string) => `/api/v1/namespaces/${namespace}/secrets/objectstore-grants`;

async function upgrade(byok = true): Promise<void> {
  const run = (...args: string[]) =>
    finish(helm, [...args, '--namespace', 'home', '--kubeconfig', join(directory, 'kubeconfig')]);
  const args = ['upgrade', '--install', 'home', CHART, '--skip-crds', ...(await forceFlags(run))];
  const { code, stderr } = await run(...args, '--set', `objectStore.dataPlane.byok=${byok}`);
  if (code !== 0) throw new Error(stderr);
}

async function read(namespace: string, key: string): Promise<string> {
  const { data } = await server.client.call<KubeObject>({ method: 'GET', path: secret(namespace) });
  return Buffer.from(data[key], 'base64').toString('utf8');
}

async function write(namespace: string, key: string, text: string): Promise<void> {
  const body = { data: { [key]: Buffer.from(text).toString('base64') } };
  const contentType = 'application/merge-patch+json';
  await server.client.call({ method: 'PATCH', path: secret(namespace), contentType, body });
}

const key = () => read('home', 'key');
const keys = () => read('home-services', 'keys');
const kids = async () => JSON.parse(await keys()).keys.map(({ kid }: { kid: string }) => kid);

it('an upgrade keeps the keys, also while they are exchanged, and never leaves the operator’s own unknown', async () => {
  await upgrade();
  const [first, public1] = [await key(), await keys()];
  const { kid } = parseGrantKey(first);
  expect(await kids()).toEqual([kid]);
  await upgrade();
  expect([await key(), await keys()]).toEqual([first, public1]);

  // Both public keys, then the new private one.
  const next = generateKeyPairSync('ed25519');
  const { x = '' } = next.publicKey.export({ format: 'jwk' });
  const jwk = { kty: 'OKP', crv: 'Ed25519', x, kid: grantKeyId(x) };
  const both = JSON.stringify({ keys: [...JSON.parse(public1).keys, jwk] });
  await write('home-services', 'keys', both);
  const second = next.privateKey.export({ type: 'pkcs8', format: 'pem' }).toString();
  await write('home', 'key', second);
  await upgrade();
  expect([await key(), await keys()]).toEqual([second, both]);

  // Whoever took the wrong one out is helped.
  await write('home-services', 'keys', public1);
  await upgrade();
  expect(await kids()).toEqual([jwk.kid]);
});

it('switched off and on again, the keys are the same, and nothing names them meanwhile', async () => {
  const before = [await key(), await keys()];
  const users = async () => {
    const deployments = await Promise.all(
      ['home/deployments/home-operator', 'home-services/deployments/objectstore-broker'].map((path) =>
        server.client.call<KubeObject>({ method: 'GET', path: `/apis/apps/v1/namespaces/${path}` }),
      ),
    );
    return deployments
      .filter(({ spec }) => JSON.stringify(spec).includes('"objectstore-grants"'))
      .map(({ metadata }) => metadata.name);
  };
  expect(await users()).toEqual(['home-operator', 'objectstore-broker']);
  await upgrade(false);
  expect(await users()).toEqual([]);
  await upgrade();
  expect(await users()).toEqual(['home-operator', 'objectstore-broker']);
  expect([await key(), await keys()]).toEqual(before);
});
