/** What the chart renders for a Space with a backup, and what it refuses. */
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';
import { SCHEMA_VERSION as DATABASE_SCHEMA } from '../../brokers/db/registry/migrations.ts';
import { readConfig } from '../../brokers/objectstore/backup/config.ts';
import { INCOMPLETE } from '../../brokers/objectstore/backup/errors.ts';
import { SCHEMA_VERSION as OBJECT_STORE_SCHEMA } from '../../brokers/objectstore/registry/migrations.ts';
import { backupOptions } from '../../operator/backup/options.ts';
import { materialsOf } from '../../operator/keys/materials.ts';
import { findTool } from '../cluster/tools.ts';
import { CHART, IMAGE_VALUES, SOME_BACKUP, SOME_IMAGES } from './chart.ts';
import { finish } from './kube.ts';
import type { KubeObject } from './kube-object.ts';

let directory: string;
let helm: string;
let without: readonly KubeObject[];
let objects: readonly KubeObject[];

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-chart-backup-'));
  helm = await findTool('helm', directory);
  [without, objects] = [await render(), await render(...SOME_BACKUP)];
}, 600_000);
afterAll(() => rm(directory, { recursive: true, force: true }));

const templateBare = (args: readonly string[]) =>
  finish(helm, ['template', 'home', CHART, '--namespace', 'home', ...args]);
const template = (...args: readonly string[]) => templateBare([...SOME_IMAGES, ...args]);

async function rendered(args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await templateBare(args);
  if (code !== 0) throw new Error(stderr);
  return stdout;
}

const objectsIn = (text: string): readonly KubeObject[] =>
  parseAllDocuments(text).flatMap((document) => document.toJS() ?? []);
const render = async (...args: readonly string[]) => objectsIn(await rendered([...SOME_IMAGES, ...args]));

const find = (kind: string, name: string, among = objects) =>
  among.find((object) => object.kind === kind && object.metadata.name === name);
const carrier = (among = objects) => find('CronJob', 'backup', among)!['spec'].jobTemplate.spec.template.spec;
const environmentOf = ({ env }: { env: readonly { name: string; value: string }[] }) =>
  Object.fromEntries(env.map(({ name, value }) => [name, value]));

describe('a Space without a backup', () => {
  it('has no program, right or key for one, and PostgreSQL may connect to nothing', () => {
    expect(JSON.stringify(without)).not.toContain('backup-');
    expect(find('CronJob', 'backup', without)).toBeUndefined();
    expect(find('NetworkPolicy', 'postgres', without)?.['spec'].egress).toBeUndefined();
    expect(find('StatefulSet', 'postgres', without)?.['spec'].template.spec.containers).toHaveLength(1);
  });
});

describe('a Space with a backup', () => {
  it('gives its programs the settings that they read', async () => {
    const { initContainers, containers } = carrier();
    expect(backupOptions.parse(JSON.parse(environmentOf(initContainers[0])['BACKUP'] ?? ''))).toMatchObject({
      space: 'home',
      releaseNamespace: 'home',
      systemNamespace: 'home-system',
      servicesNamespace: 'home-services',
      file: '/run/backup/state.age',
      version: parse(await readFile(join(CHART, 'Chart.yaml'), 'utf8')).version,
      schemas: { database: DATABASE_SCHEMA, objectStore: OBJECT_STORE_SCHEMA },
      databaseHosts: { main: 'postgres' },
    });
    expect(readConfig(environmentOf(containers[0]))).toMatchObject({
      SPACE_NAME: 'home',
      BACKUP_S3_ENDPOINT: 'https://vault.example.org',
      BACKUP_S3_BUCKET: 'mine',
      BACKUP_S3_PREFIX: 'home',
      BACKUP_STATE_FILE: '/run/backup/state.age',
      BACKUP_KEEP_DAYS: 14,
    });
    const server = find('StatefulSet', 'postgres')!['spec'].template.spec.containers;
    for (const container of server)
      expect(environmentOf(container)).toMatchObject({
        BACKUP_S3_HOST: 'vault.example.org',
        BACKUP_S3_PORT: '443',
        BACKUP_S3_URI_STYLE: 'path',
        BACKUP_QUEUE_BYTES: String(1024 ** 3),
      });
  });

  it('ends a run that hangs, which would hold back all others, after a day or as long as the values say', async () => {
    const jobIn = (among: readonly KubeObject[]) => find('CronJob', 'backup', among)!['spec'];
    expect(jobIn(objects)).toMatchObject({
      concurrencyPolicy: 'Forbid',
      jobTemplate: { spec: { activeDeadlineSeconds: 86_400 } },
    });
    const longer = await render(...SOME_BACKUP, '--set', 'backup.longestHours=48');
    expect(jobIn(longer).jobTemplate.spec.activeDeadlineSeconds).toBe(172_800);
    const none = await template(...SOME_BACKUP, '--set', 'backup.longestHours=0');
    expect(none.stderr).toMatch(/longestHours/);
  });

  it('makes no further points at once where one was made without some objects', () => {
    const { podFailurePolicy, template: pod } = find('CronJob', 'backup')!['spec'].jobTemplate.spec;
    const onExitCodes = { containerName: 'bucket', operator: 'In', values: [INCOMPLETE] };
    expect(podFailurePolicy).toEqual({ rules: [{ action: 'FailJob', onExitCodes }] });
    // The API server takes no such policy otherwise.
    expect(pod.spec).toMatchObject({ restartPolicy: 'Never', containers: [{ name: 'bucket' }] });
  });

  it('gives the API server’s token to the container that calls it, and the Space’s S3 key to the other', () => {
    const { initContainers, containers, automountServiceAccountToken } = carrier();
    const mounts = ([{ volumeMounts }]: [{ volumeMounts: { name: string }[] }]) =>
      volumeMounts.map(({ name }) => name);
    expect(automountServiceAccountToken).toBe(false);
    expect(mounts(initContainers).sort()).toEqual(['state', 'token']);
    expect(mounts(containers).sort()).toEqual(['backup-keys', 'backup-s3', 'ca', 's3', 'state']);
  });

  it('may list Secrets in its own namespaces and Capsules in the release’s, and nothing else', () => {
    const rules = objects
      .filter(({ kind, metadata }) => kind === 'Role' && metadata.name === 'home-backup')
      .map(({ metadata, rules }) => [metadata.namespace, rules]);
    const secrets = { apiGroups: [''], resources: ['secrets'], verbs: ['list'] };
    expect(Object.fromEntries(rules)).toEqual({
      home: [
        secrets,
        { apiGroups: ['platform.space'], resources: ['capsules', 'assistants'], verbs: ['list'] },
      ],
      'home-system': [secrets],
      'home-services': [secrets],
    });
    expect(
      objects.filter(({ kind, metadata }) => kind.startsWith('Cluster') && /backup/.test(metadata.name)),
    ).toEqual([]);
  });

  it('accepts images in parts', async () => {
    const digest = `sha256:${'0'.repeat(64)}`;
    const parts = IMAGE_VALUES.flatMap((value) => [
      ...['--set', `${value}.repository=${value.toLowerCase()}`],
      ...['--set', `${value}.digest=${digest}`],
    ]);
    const made = objectsIn(await rendered([...SOME_BACKUP, ...parts]));
    const { initContainers, containers } = carrier(made);
    const server = find('StatefulSet', 'postgres', made)!['spec'].template.spec.containers;
    const images = [...initContainers, ...containers, ...server].map(({ image }) => image);
    expect(images).toEqual(
      ['operator', 'objectstore', 'postgres', 'postgres'].map((name) => `${name}.image@${digest}`),
    );
  });

  it('leaves users to a cluster that assigns them', async () => {
    const values = [
      'podSecurity.runAsUser=injected',
      'postgres.external.host=db.example.org',
      'postgres.external.ca=PEM',
      'postgres.external.ownBackup=true',
      'postgres.external.cidrs={203.0.113.8/32}',
      'postgres.external.assistants.addresses={203.0.113.8}',
      'existingSecrets.dbAdmin=db',
      'existingSecrets.objectStoreRegistry=registry',
    ];
    const made = await render(...SOME_BACKUP, ...values.flatMap((value) => ['--set', value]));
    expect(Object.keys(carrier(made).securityContext)).not.toContain('runAsUser');
    expect(carrier().securityContext).toMatchObject({ runAsUser: 1000, runAsGroup: 1000, fsGroup: 1000 });
  });

  it('opens no listener, and lets PostgreSQL and its program reach only the bucket for backups', () => {
    const vault = { to: [{ ipBlock: { cidr: '203.0.113.7/32' } }], ports: [{ protocol: 'TCP', port: 443 }] };
    const dns = expect.objectContaining({
      to: [expect.objectContaining({ podSelector: expect.anything() })],
    });
    expect(find('NetworkPolicy', 'postgres')?.['spec'].egress).toEqual([vault, dns]);
    const { ingress, egress } = find('NetworkPolicy', 'backup')!['spec'];
    expect(ingress).toBeUndefined();
    expect(egress).toContainEqual(vault);
    expect(egress).toHaveLength(4);
    const services = (among: readonly KubeObject[]) => among.filter(({ kind }) => kind === 'Service').length;
    expect(services(objects)).toBe(services(without));
  });

  it('has keys of its own, which are generated as others and have the formats that their programs require', async () => {
    const options = { servicesNamespace: 'home-services', tls: true, objectStore: true, byok: false };
    const made = materialsOf({ ...options, console: false, backup: true });
    const { fields } = made.find(({ name }) => name === 'backup-keys')!;
    for (const field of Object.values(fields)) expect(field.isValid(field.make())).toBe(true);
    const { identityToRecipient } = await import('age-encryption');
    expect(await identityToRecipient(fields['bucket']!.make())).toMatch(/^age1/);
    expect(materialsOf({ ...options, console: false, backup: false }).map(({ name }) => name)).not.toContain(
      'backup-keys',
    );
  });
});

describe('the chart refuses, with what to do', () => {
  it.each([
    ['a Space without an object store', ['objectStore.enabled=false'], /set objectStore.enabled=true/],
    ['no recipient', ['backup.recipient='], /age-keygen/],
    ['a private key in the place of the recipient', ['backup.recipient=AGE-SECRET-KEY-1Q'], /recipient/],
    ['no bucket', ['backup.s3.bucket='], /backup.s3.bucket/],
    ['plain http', ['backup.s3.endpoint=http://vault.example.org'], /endpoint/],
    ['no key of the bucket', ['existingSecrets.backupS3='], /access-key and secret-key/],
    [
      'a bucket that is named before an address',
      ['backup.s3.endpoint=https://203.0.113.7', 'backup.s3.addressing=virtual-host'],
      /cannot contain the name of a bucket/,
    ],
    ['no way there', ['backup.s3.cidrs=null'], /backup.s3.cidrs or its pods/],
    ['every pod there is', ['backup.s3.pods.namespace=vault'], /backup.s3.pods.labels/],
  ])('%s', async (_what, values, sentence) => {
    const { code, stderr } = await template(...SOME_BACKUP, ...values.flatMap((value) => ['--set', value]));
    expect([code, stderr]).toEqual([1, expect.stringMatching(sentence)]);
  });

  it('PostgreSQL servers that are in no backup, until the values say that each has one of its own', async () => {
    const external = [
      'host=db.example.org',
      'ca=PEM',
      'cidrs={203.0.113.8/32}',
      'assistants.addresses={203.0.113.8}',
    ];
    const b = [
      ...['name=b', 'host=pg-b.example.org', 'ca=PEM', 'cidrs={203.0.113.9/32}', 'existingSecret=pg-b'],
      'assistants.addresses={203.0.113.9}',
    ];
    const values = [
      ...external.map((one) => `postgres.external.${one}`),
      ...b.map((one) => `postgres.servers[0].${one}`),
      ...['existingSecrets.dbAdmin=db', 'existingSecrets.objectStoreRegistry=registry'],
    ];
    const made = (...more: string[]) =>
      template(...SOME_BACKUP, ...[...values, ...more].flatMap((value) => ['--set', value]));
    const said = ['postgres.external.ownBackup=true', 'postgres.servers[0].ownBackup=true'];
    const sentences = [
      /and nothing of postgres\.external, postgres\.servers\[0\] \(b\)\. .*ownBackup: true/,
      /and nothing of postgres\.servers\[0\] \(b\)\./,
    ];
    for (const [index, sentence] of sentences.entries())
      expect(await made(...said.slice(0, index))).toMatchObject({
        code: 1,
        stderr: expect.stringMatching(sentence),
      });
    const { code, stdout } = await made(...said);
    expect(code).toBe(0);
    const { initContainers } = carrier(objectsIn(stdout));
    expect(JSON.parse(environmentOf(initContainers[0])['BACKUP'] ?? '')).toMatchObject({
      databaseHosts: { main: 'db.example.org', b: 'pg-b.example.org' },
    });
    // Without a backup the values need say nothing about one.
    const without = await template(...values.flatMap((value) => ['--set', value]));
    expect(without.code).toBe(0);
  });

  it('the Space’s own bucket', async () => {
    const own = [
      'objectStore.external.endpoint=https://vault.example.org',
      'objectStore.external.bucket=mine',
      'objectStore.external.cidrs={203.0.113.7/32}',
      'existingSecrets.s3Root=s3',
    ].flatMap((value) => ['--set', value]);
    const { code, stderr } = await template(...SOME_BACKUP, ...own);
    expect([code, stderr]).toEqual([1, expect.stringContaining('its backup is lost with it')]);
  });
});
