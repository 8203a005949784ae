import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { readConfig as readOperatorConfig } from '../../operator/config.ts';
import { findTool } from '../cluster/tools.ts';
import { CHART, SOME_IMAGES } from './chart.ts';
import { finish } from './kube.ts';
import type { KubeObject } from './kube-object.ts';

const [B, C] = ['postgres.servers[0]', 'postgres.servers[1]'];
/**
 * One server is named by its addresses, with default values; the other by its pods, drained and with every value set.
 */
const SERVERS = [
  `${B}.name=b`,
  `${B}.host=pg-b.db.svc`,
  `${B}.existingSecret=pg-b-admin`,
  `${B}.assistants.addresses={10.96.3.5,fd00::5}`,
  `${B}.ca=PEM of b`,
  `${B}.cidrs={203.0.113.16/28}`,
  `${C}.name=c`,
  `${C}.host=pg-c.db.svc`,
  `${C}.port=5433`,
  `${C}.existingSecret=pg-c-admin`,
  `${C}.assistants.host=pgc`,
  `${C}.assistants.addresses={10.96.3.6}`,
  `${C}.ca=PEM of c`,
  `${C}.pods.namespace=databases`,
  `${C}.pods.labels.app=pg`,
  `${C}.weight=3`,
  `${C}.drain=true`,
  'postgres.weight=2',
];
const AT = 'postgres.external';
const EXTERNAL = [
  `${AT}.host=pg-a.db.svc`,
  `${AT}.assistants.addresses={10.96.3.4}`,
  `${AT}.ca=PEM of a`,
  `${AT}.cidrs={203.0.113.0/28}`,
  'existingSecrets.dbAdmin=pg-admin',
  'existingSecrets.objectStoreRegistry=pg-objects',
];

let directory: string;
let helm: string;
/** Rendered with the embedded server as the first, and with an external one. */
let embedded: readonly KubeObject[];
let external: readonly KubeObject[];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-chart-'));
  helm = await findTool('helm', directory);
  [embedded, external] = await Promise.all([render(SERVERS), render([...EXTERNAL, ...SERVERS])]);
}, 600_000);
afterAll(() => rm(directory, { recursive: true, force: true }));

const template = (values: readonly string[]) => {
  const set = values.flatMap((value) => ['--set', value]);
  return finish(helm, ['template', 'home', CHART, '--namespace', 'home', ...SOME_IMAGES, ...set]);
};

async function text(values: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await template(values);
  if (code !== 0) throw new Error(stderr);
  return stdout;
}

const render = async (values: readonly string[]): Promise<readonly KubeObject[]> =>
  parseAllDocuments(await text(values)).flatMap((document) => document.toJS() ?? []);

const named = (objects: readonly KubeObject[], kind: string, name: string) =>
  objects.find((object) => object.kind === kind && object.metadata.name === name);
const templateOf = (objects: readonly KubeObject[], deployment: string) =>
  named(objects, 'Deployment', deployment)?.['spec'].template;
const environmentOf = (objects: readonly KubeObject[], deployment: string): Record<string, string> => {
  const { env } = templateOf(objects, deployment).spec.containers[0];
  return Object.fromEntries(env.map(({ name, value }: { name: string; value?: string }) => [name, value]));
};

describe('a Space with several PostgreSQL servers', () => {
  it('describes each to the database broker: its connection, what Assistants are issued, its weight, and whether it is drained', () => {
    for (const objects of [embedded, external]) {
      const { SERVERS_FILE } = environmentOf(objects, 'db-broker');
      expect(SERVERS_FILE).toBe('/etc/space/servers/servers.json');
      const data = named(objects, 'ConfigMap', 'db-servers')?.['data'];
      const way = (host: string, name: string) =>
        `postgresql://space_broker@${host}/space_registry?sslmode=verify-full&sslrootcert=/etc/space/servers/${name}/ca.crt`;
      const issued = { sslmode: 'verify-full', sslrootcert: '/etc/space/tls/postgres.crt' };
      expect(JSON.parse(data['servers.json'])).toEqual({
        main: { weight: 2, drain: false },
        servers: [
          {
            name: 'b',
            url: way('pg-b.db.svc:5432', 'b'),
            passwordFile: '/etc/space/servers/b/password',
            issued: { ...issued, host: 'pg-b.db.svc', port: 5432 },
            weight: 1,
            drain: false,
          },
          {
            name: 'c',
            url: way('pg-c.db.svc:5433', 'c'),
            passwordFile: '/etc/space/servers/c/password',
            issued: { ...issued, host: 'pgc', port: 5433 },
            weight: 3,
            drain: true,
          },
        ],
      });
    }
  });

  it('mounts each server’s CA and password at the paths in that file, and follows changes of your Secrets', () => {
    const { volumes, containers } = templateOf(embedded, 'db-broker').spec;
    expect(volumes).toContainEqual({
      name: 'servers',
      projected: {
        defaultMode: 0o440,
        sources: [
          {
            configMap: {
              name: 'db-servers',
              items: [
                { key: 'servers.json', path: 'servers.json' },
                { key: 'b.crt', path: 'b/ca.crt' },
                { key: 'c.crt', path: 'c/ca.crt' },
              ],
            },
          },
          { secret: { name: 'pg-b-admin', items: [{ key: 'password', path: 'b/password' }] } },
          { secret: { name: 'pg-c-admin', items: [{ key: 'password', path: 'c/password' }] } },
        ],
      },
    });
    expect(containers[0].volumeMounts).toContainEqual({
      name: 'servers',
      mountPath: '/etc/space/servers',
      readOnly: true,
    });
    const data = named(embedded, 'ConfigMap', 'db-servers')?.['data'];
    expect(data).toMatchObject({ 'b.crt': 'PEM of b', 'c.crt': 'PEM of c' });
    expect(JSON.stringify(templateOf(embedded, 'objectstore-broker'))).not.toMatch(/pg-b|servers/);
  });

  it.each([
    ['a weight', `${B}.weight=5`],
    ['a drain', `${B}.drain=true`],
    ['the first server’s drain', 'postgres.drain=true'],
    ['an authority', `${B}.ca=PEM anew`],
    ['an address of what Assistants are issued', `${B}.assistants.host=pg-b`],
  ])('restarts the broker for another list: %s', async (_, change) => {
    const revision = (objects: readonly KubeObject[]) =>
      templateOf(objects, 'db-broker').metadata.annotations['platform.space/servers'];
    expect(revision(embedded)).toMatch(/^[0-9a-f]{64}$/);
    expect(revision(await render([...SERVERS, change]))).not.toBe(revision(embedded));
    expect(revision(await render([...SERVERS, 'dbBroker.logLevel=debug']))).toBe(revision(embedded));
  });

  const toB = {
    to: [{ ipBlock: { cidr: '203.0.113.16/28' } }],
    ports: [{ protocol: 'TCP', port: 5432 }],
  };
  const toC = {
    to: [
      {
        namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'databases' } },
        podSelector: { matchLabels: { app: 'pg' } },
      },
    ],
    ports: [{ protocol: 'TCP', port: 5432 }],
  };

  it('lets the database broker, probes and Assistants reach all of them, and the object store only the first', () => {
    for (const objects of [embedded, external]) {
      const policies = objects.filter(({ kind }) => kind === 'NetworkPolicy');
      for (const rule of [toB, toC]) {
        const allowed = policies.filter(({ spec }) =>
          (spec?.egress ?? []).some((one: object) => JSON.stringify(one) === JSON.stringify(rule)),
        );
        const names = allowed.map(({ metadata }) => metadata.name).sort();
        expect(names).toEqual(['db-broker', 'home-network-probe']);
      }
      const { furtherDatabaseServers } = readOperatorConfig(environmentOf(objects, 'home-operator'));
      expect(furtherDatabaseServers).toEqual([
        { host: 'pg-b.db.svc', addresses: ['10.96.3.5', 'fd00::5'], port: 5432, egress: [toB] },
        { host: 'pgc', addresses: ['10.96.3.6'], port: 5433, egress: [toC] },
      ]);
    }
  });

  it('makes Assistants verify them by one file with all CAs, and each broker the first by its own CA alone', () => {
    const authorities = (objects: readonly KubeObject[]) =>
      objects
        .filter(({ metadata }) => metadata.name === 'postgres-ca')
        .map(({ metadata, data }) => [metadata.namespace, data['ca.crt']]);
    expect(authorities(embedded)).toEqual([['home-system', 'PEM of b\nPEM of c']]);
    expect(authorities(external)).toEqual([
      ['home-system', 'PEM of a\nPEM of b\nPEM of c'],
      ['home-services', 'PEM of a'],
    ]);
    for (const objects of [embedded, external]) {
      const { databaseCaFile } = readOperatorConfig(environmentOf(objects, 'home-operator'));
      expect(databaseCaFile).toBe('/etc/space/postgres-ca/ca.crt');
      const { volumes, containers } = templateOf(objects, 'home-operator').spec;
      expect(volumes).toContainEqual({
        name: 'postgres-ca',
        configMap: { name: 'postgres-ca', defaultMode: 0o444 },
      });
      expect(JSON.stringify(containers[0].volumeMounts)).toContain('/etc/space/postgres-ca');
    }
    expect(JSON.stringify(templateOf(embedded, 'db-broker'))).not.toContain('postgres-ca');
  });

  it('has no CAs for servers without TLS, in a Space without it', async () => {
    const plain = [B, C].flatMap((at) => [`${at}.sslmode=disable`, `${at}.ca=`]);
    const objects = await render([...SERVERS, ...plain, 'tls.enabled=false']);
    const data = named(objects, 'ConfigMap', 'db-servers')?.['data'];
    expect(Object.keys(data)).toEqual(['servers.json']);
    const [server] = JSON.parse(data['servers.json']).servers;
    expect(server.url).toBe('postgresql://space_broker@pg-b.db.svc:5432/space_registry?sslmode=disable');
    expect(server.issued).toEqual({ host: 'pg-b.db.svc', port: 5432, sslmode: 'disable' });
    expect(environmentOf(objects, 'home-operator')).not.toHaveProperty('DATABASE_CA_FILE');
    expect(named(objects, 'ConfigMap', 'postgres-ca')).toBeUndefined();
  });

  it('accepts the open databases that you name also if the first server is the embedded one', async () => {
    const open = `${AT}.acceptOpenDatabases={rdsadmin}`;
    expect(environmentOf(embedded, 'db-broker')).not.toHaveProperty('ACCEPT_OPEN_DATABASES');
    const env = environmentOf(await render([...SERVERS, open]), 'db-broker');
    expect(env).toMatchObject({ ACCEPT_OPEN_DATABASES: 'rdsadmin' });
  });

  it('has none of this with one server', async () => {
    const [one, other] = await Promise.all([text([]), text(['postgres.weight=7'])]);
    expect(other).toBe(one);
    for (const word of ['SERVERS', 'db-servers', 'platform.space/servers', 'postgres-ca'])
      expect(one).not.toContain(word);
  });

  const and = (...changes: readonly string[]) => [...SERVERS, ...changes];
  const without = (beginning: string) => SERVERS.filter((value) => !value.startsWith(beginning));

  it.each([
    ['two of one name', and(`${C}.name=b`), /postgres\.servers\[1\] is b, as is a server before it/],
    ['one of the first’s name', and(`${B}.name=main`), /name of the first server/],
    ['one of no name', and(`${B}.name=`), /name/],
    ['one of a name that is none', and(`${B}.name=B_1`), /name/],
    ['one of a name that is too long', and(`${B}.name=a23456789012345678901`), /name/],
    ['one of no host', without(`${B}.host`), /host/],
    ['one without its password', without(`${B}.exist`), /space_broker .*home-services.*\.existingSecret/],
    ['one that no Assistant could find', without(`${B}.assist`), /no DNS.*\[0\]\.assistants\.addresses/],
    ['one at an address that is none', and(`${B}.assistants.addresses={pg}`), /addresses/],
    ['one that no policy lets anybody to', without(`${B}.cidrs`), /postgres\.servers\[0\]\.cidrs/],
    ['one by pods of no label', without(`${C}.pods.labels`), /postgres\.servers\[1\]\.pods\.labels/],
    ['one without its authority', without(`${C}.ca`), /postgres\.servers\[1\]\.ca/],
    ['one in plain text', and(`${B}.sslmode=disable`), /servers\[0\]\.sslmode is disable.*plain text/],
    ['one that is believed without being verified', and(`${B}.sslmode=require`), /sslmode/],
    ['one of no weight', and(`${B}.weight=0`), /weight/],
    ['a value that there is not', and(`${B}.standby=true`), /standby/],
    [
      'two that Assistants could not tell apart',
      and(`${C}.assistants.host=pg-b.db.svc`),
      /already use the name .* for something else/,
    ],
    [
      'one that they would take for the first',
      and(`${B}.assistants.host=postgres`),
      /already use the name .* for something else/,
    ],
    ['one that they would take for their files', and(`${B}.assistants.host=objectstore`), /something else/],
    [
      'all drained',
      and(`${B}.drain=true`, 'postgres.drain=true'),
      /every server is drained.*leave at least one/,
    ],
  ])('refuses %s, and says what to do', async (_, values, reason) => {
    const { code, stderr } = await template(values);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(reason);
  });

  it('refuses to drain the only server', async () => {
    const { code, stderr } = await template(['postgres.drain=true']);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/every server is drained/);
  });
});
