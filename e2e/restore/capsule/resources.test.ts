import { expect, it } from 'vitest';
import type { Step } from '../../progress/index.ts';
import type { Kube } from '../../space/kube.ts';
import type { KubeObject } from '../../space/kube-object.ts';
import type { Place } from '../place.ts';
import { awaitResources } from './resources.ts';
import type { Tenant } from './tenant.ts';

/** What the operator creates for a restored Capsule, on any server on which the broker has placed it. */

const STEP = { note: () => undefined } as unknown as Step;
const ADDRESSES = new Map([
  ['postgres', '10.96.0.7'],
  ['pg-b', '203.0.113.17'],
]);
const object = (kind: string, name: string, more: object): KubeObject => ({
  ...{ apiVersion: 'v1', kind, metadata: { name, namespace: 'home', uid: 'u1' } },
  ...more,
});
const tenant: Tenant = {
  capsule: object('Capsule', 'attic', { spec: {} }),
  assistants: [
    object('Assistant', 'ledger', { spec: { capsule: 'attic', manifest: { platform: { id: 'ledger' } } } }),
  ],
  inputs: [],
};
const base64 = (text: string) => Buffer.from(text).toString('base64');

function places(url: string) {
  const objects: Readonly<Record<string, KubeObject>> = {
    'capsule/attic': object('Capsule', 'attic', { status: { namespace: 'home-attic' } }),
    'assistant/ledger': tenant.assistants[0] as KubeObject,
    'secret/ledger-database': object('Secret', 'ledger-database', {
      metadata: { name: 'ledger-database', annotations: { 'platform.space/owner-uid': 'u1' } },
      data: {
        DATABASE_URL: base64(url),
        'ca.crt': base64('the Space'),
        'postgres.crt': base64('b and others'),
      },
    }),
    'secret/capsule-attic-database': object('Secret', 'capsule-attic-database', {
      data: { 'database-url': base64(url.replaceAll('spc_1', 'spc_2')) },
    }),
  };
  const kube = { get: async (kind: string, name: string) => objects[`${kind}/${name}`] } as unknown as Kube;
  const files = JSON.stringify({ place: 'p', apps: { ledger: 'q' }, sets: 0 });
  const run = async () => ({ code: 0, stdout: files, stderr: '' });
  const server: Place = {
    kube: { run },
    namespace: 'home-services',
    pod: 'postgres-0',
    container: 'postgres',
  };
  const namespaces = { release: 'home', system: 'home-system', services: 'home-services' };
  const about = { kube, namespaces, signal: new AbortController().signal, addresses: ADDRESSES };
  return awaitResources(about, server, tenant, STEP);
}
const urlOf = (host: string, more = '') => `postgresql://spc_1:x@${host}:5432/spc_1${more}`;

it('is filled at the server that its URL names, which is verified by the CA that the URL names', async () => {
  const verified = (file: string) => `?sslmode=verify-full&sslrootcert=/etc/space/tls/${file}`;
  const own = (await places(urlOf('postgres', verified('ca.crt')))).databases;
  expect(own.get('ledger')).toMatchObject({
    host: 'postgres',
    address: '10.96.0.7',
    ca: base64('the Space'),
  });
  const beside = (await places(urlOf('pg-b', verified('postgres.crt')))).databases;
  for (const app of ['ledger', ''])
    expect(beside.get(app)).toMatchObject({
      host: 'pg-b',
      address: '203.0.113.17',
      ca: base64('b and others'),
    });
  expect(beside.get('')?.url).toContain('/spc_2?');
  expect((await places(urlOf('postgres'))).databases.get('ledger')?.ca).toBeUndefined();
});

it('is refused at an unknown server', async () => {
  await expect(places(urlOf('pg-c'))).rejects.toThrow(
    /a database is on pg-c, and the operator of this Space knows no PostgreSQL server/,
  );
});
