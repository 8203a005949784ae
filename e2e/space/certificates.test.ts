/** What an upgrade makes of the certificates that are there, asked of a real API server. */

import { X509Certificate } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type ApiServer, startApiServer } from '../../operator/testing/api-server.ts';
import { findTool } from '../cluster/tools.ts';
import { finish, type KubeObject } from './kube.ts';
import { forceFlags } from './release.ts';

const CHART = resolve(import.meta.dirname, '../../charts/space');
const SERVICES = 'home-services';

let directory: string;
let helm: string;
let server: ApiServer;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-certificates-'));
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

type Made = ReadonlyMap<string, KubeObject>;

/** Installs or upgrades; answers the services' Secrets and ConfigMaps as they are then. */
async function upgrade(): Promise<Made> {
  const run = (...args: string[]) =>
    finish(helm, [...args, '--namespace', 'home', '--kubeconfig', join(directory, 'kubeconfig')]);
  const args = ['upgrade', '--install', 'home', CHART, '--skip-crds', ...(await forceFlags(run))];
  const { code, stderr } = await run(...args);
  if (code !== 0) throw new Error(stderr);
  const made = new Map<string, KubeObject>();
  for (const kind of ['Secret', 'ConfigMap']) {
    const path = `/api/v1/namespaces/${SERVICES}/${kind.toLowerCase()}s`;
    const { items } = await server.client.call<{ items: KubeObject[] }>({ method: 'GET', path });
    for (const item of items) made.set(`${kind} ${item.metadata.name}`, item);
  }
  return made;
}

const secret = (name: string) => `/api/v1/namespaces/${SERVICES}/secrets/${name}`;
const certificateOf = (objects: Made, name: string) =>
  new X509Certificate(
    Buffer.from(objects.get(`Secret ${name}`)?.['data']['tls.crt'], 'base64').toString('utf8'),
  );
const serials = (objects: Made) =>
  ['space-ca', 'db-broker-tls', 'postgres-tls'].map((name) => certificateOf(objects, name).serialNumber);

it('an upgrade keeps authority and certificates, renews one in time, and all after their authority', async () => {
  const first = await upgrade();
  const [authority, broker, postgres] = serials(first);
  const second = await upgrade();
  expect(serials(second)).toEqual([authority, broker, postgres]);
  expect(second.get('Secret db-admin')?.['data']).toEqual(first.get('Secret db-admin')?.['data']);

  const due = { metadata: { annotations: { 'platform.space/renew-after': '1000' } } };
  const contentType = 'application/merge-patch+json';
  await server.client.call({ method: 'PATCH', path: secret('postgres-tls'), contentType, body: due });
  const third = await upgrade();
  expect(serials(third).slice(0, 2)).toEqual([authority, broker]);
  expect(serials(third)[2]).not.toBe(postgres);
  expect(serials(await upgrade())).toEqual(serials(third));

  await server.client.call({ method: 'DELETE', path: secret('space-ca'), body: {} });
  const fourth = await upgrade();
  const before = new Set([...serials(first), ...serials(third)]);
  for (const serial of serials(fourth)) expect(before).not.toContain(serial);
  const root = fourth.get('ConfigMap space-ca')?.['data']['ca.crt'];
  for (const name of ['db-broker-tls', 'postgres-tls'])
    expect(certificateOf(fourth, name).verify(new X509Certificate(root).publicKey)).toBe(true);
});
