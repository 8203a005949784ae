import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { readConfig as readDatabaseConfig } from '../../brokers/db/config.ts';
import { readConfig as readObjectStoreConfig } from '../../brokers/objectstore/config.ts';
import { readConfig as readOperatorConfig } from '../../operator/config.ts';
import { findTool } from '../cluster/tools.ts';
import { CHART, SOME_IMAGES } from './chart.ts';
import { finish } from './kube.ts';
import type { KubeObject } from './kube-object.ts';

const AT = 'postgres.external';
const WHOLE = [
  `${AT}.host=pg-rw.db.svc`,
  `${AT}.port=5433`,
  `${AT}.assistants.host=pg`,
  `${AT}.assistants.addresses={10.96.3.4}`,
  `${AT}.ca=PEM`,
  `${AT}.cidrs={203.0.113.0/28}`,
  `${AT}.acceptOpenDatabases={template1,rdsadmin}`,
  'existingSecrets.dbAdmin=pg-admin',
  'existingSecrets.objectStoreRegistry=pg-objects',
  'postgres.image=',
];

let directory: string;
let helm: string;
let objects: readonly KubeObject[];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-chart-'));
  helm = await findTool('helm', directory);
  objects = await render(WHOLE);
}, 600_000);
afterAll(() => rm(directory, { recursive: true, force: true }));

const template = (values: readonly string[]) => {
  const set = values.flatMap((value) => ['--set', value]);
  return finish(helm, ['template', 'home', CHART, '--namespace', 'home', ...SOME_IMAGES, ...set]);
};

async function render(values: readonly string[]): Promise<readonly KubeObject[]> {
  const { code, stdout, stderr } = await template(values);
  if (code !== 0) throw new Error(stderr);
  return parseAllDocuments(stdout).flatMap((document) => document.toJS() ?? []);
}

const named = (kind: string, name: string) =>
  objects.find((object) => object.kind === kind && object.metadata.name === name);
const podOf = (deployment: string) => named('Deployment', deployment)?.['spec'].template.spec;
const environmentOf = (deployment: string): Record<string, string> => {
  const { env } = podOf(deployment).containers[0];
  return Object.fromEntries(env.map(({ name, value }: { name: string; value?: string }) => [name, value]));
};

describe('a Space with an external PostgreSQL', () => {
  it('runs none itself: no server, no volume, no key and no certificate for it', () => {
    expect(objects.filter(({ metadata }) => metadata.name === 'postgres')).toEqual([]);
    const text = JSON.stringify(objects.filter(({ kind }) => kind !== 'CustomResourceDefinition'));
    expect(text).not.toMatch(/"db-admin"|postgres-tls|"objectstore-registry"|postgres\.home-services/);
  });

  it('makes brokers verify its name and CA, and log in with the passwords of your Secrets', () => {
    const root = 'sslmode=verify-full&sslrootcert=/etc/space/postgres-ca/ca.crt';
    expect(readDatabaseConfig(environmentOf('db-broker'))).toMatchObject({
      ADMIN_DATABASE_URL: `postgresql://space_broker@pg-rw.db.svc:5433/space_registry?${root}`,
      ACCEPT_OPEN_DATABASES: 'template1,rdsadmin',
      ISSUED_HOST: 'pg',
      ISSUED_PORT: 5433,
      ISSUED_SSLMODE: 'verify-full',
      ISSUED_SSLROOTCERT: '/etc/space/tls/postgres.crt',
    });
    expect(readObjectStoreConfig(environmentOf('objectstore-broker'))).toMatchObject({
      REGISTRY_DATABASE_URL: `postgresql://space_objectstore@pg-rw.db.svc:5433/space_objectstore?${root}`,
    });
    for (const [deployment, name, secretName] of [
      ['db-broker', 'admin', 'pg-admin'],
      ['objectstore-broker', 'registry', 'pg-objects'],
    ] as const) {
      const { volumes } = podOf(deployment);
      const items = [{ key: 'password', path: 'password' }];
      expect(volumes).toContainEqual({ name, secret: { secretName, defaultMode: 288, items } });
      expect(volumes).toContainEqual({
        name: 'postgres-ca',
        configMap: { name: 'postgres-ca', defaultMode: 292 },
      });
    }
    const authorities = objects.filter(({ metadata }) => metadata.name === 'postgres-ca');
    expect(authorities.map(({ metadata, data }) => [metadata.namespace, data])).toEqual([
      ['home-system', { 'ca.crt': 'PEM' }],
      ['home-services', { 'ca.crt': 'PEM' }],
    ]);
  });

  it('lets brokers, probes and Assistants reach it, and nobody else', () => {
    const to = {
      to: [{ ipBlock: { cidr: '203.0.113.0/28' } }],
      ports: [{ protocol: 'TCP', port: 5433 }],
    };
    const policies = objects.filter(({ kind }) => kind === 'NetworkPolicy');
    const allowed = policies.filter(({ spec }) => JSON.stringify(spec).includes('203.0.113.0/28'));
    expect(allowed.map(({ metadata }) => metadata.name).sort()).toEqual([
      'db-broker',
      'home-network-probe',
      'objectstore-broker',
    ]);
    for (const { spec } of allowed) expect(spec?.egress).toContainEqual(to);
    expect(readOperatorConfig(environmentOf('home-operator'))).toMatchObject({
      databaseServer: { host: 'pg', addresses: ['10.96.3.4'], port: 5433, egress: [to] },
      databaseCaFile: '/etc/space/postgres-ca/ca.crt',
    });
    const admitted = JSON.stringify(objects.filter(({ kind }) => kind === 'ValidatingAdmissionPolicy'));
    expect(admitted).toContain('[+]PostgreSQL=[0-9a-fA-F.:]+:5433$');
  });

  it('has no say in the port of Assistants while it has no host', async () => {
    const rendered = await render([`${AT}.port=5433`]);
    const policies = rendered.filter(({ kind }) => kind === 'ValidatingAdmissionPolicy');
    expect(JSON.stringify(policies)).toContain('[+]PostgreSQL=[0-9a-fA-F.:]+:5432$');
  });

  it('finds it in the cluster by its pods, on the port that they have', async () => {
    const pods = ['cidrs=null', 'pods.namespace=db', 'pods.labels.app=pg', 'pods.port=5432'];
    const rendered = await render([...WHOLE, ...pods.map((value) => `${AT}.${value}`)]);
    const broker = rendered.find(
      ({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'db-broker',
    );
    expect(broker?.['spec'].egress).toContainEqual({
      to: [
        {
          namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'db' } },
          podSelector: { matchLabels: { app: 'pg' } },
        },
      ],
      ports: [{ protocol: 'TCP', port: 5432 }],
    });
  });

  it.each([
    [
      'without the administrator’s password',
      'existingSecrets.dbAdmin=',
      /role space_broker .*existingSecrets\.dbAdmin/,
    ],
    [
      'without the registry’s password',
      'existingSecrets.objectStoreRegistry=',
      /existingSecrets\.objectStoreRegistry/,
    ],
    ['that no Assistant could find', `${AT}.assistants.addresses=null`, /no DNS.*assistants\.addresses/],
    ['that no policy lets anybody to', `${AT}.cidrs=null`, /postgres\.external\.cidrs/],
    ['by pods of no label', `${AT}.pods.namespace=db`, /postgres\.external\.pods\.labels/],
    ['without its authority', `${AT}.ca=`, /postgres\.external\.ca/],
    ['in plain text', `${AT}.sslmode=disable`, /plain text.*use verify-full/],
    ['that is believed without being verified', `${AT}.sslmode=require`, /sslmode/],
    ['with a name that is none', `${AT}.host=https://pg`, /host/],
    ['at an address that is none', `${AT}.assistants.addresses={pg}`, /addresses/],
  ])('refuses one %s, and says what to do', async (_, change, reason) => {
    const { code, stderr } = await template([...WHOLE, change]);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(reason);
  });
});
