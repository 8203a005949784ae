import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { findTool } from '../cluster/tools.ts';
import { CHART, SOME_IMAGES } from '../space/chart.ts';
import { finish } from '../space/kube.ts';
import type { KubeObject } from '../space/kube-object.ts';
import { DRILL_VALUES, requireServersOfItsOwn } from './drill.ts';
import {
  bucketBackupPod,
  claimOf,
  databaseBackupPod,
  databasePod,
  destinationSecret,
  knownTo,
  objectsPod,
  statefulSet,
  statePod,
} from './pods.ts';
import { BACKUP, EXTERNAL, SERVER_B } from './testing/values.ts';

let directory: string;
let helm: string;
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'space-restore-'));
  helm = await findTool('helm', directory);
});
afterAll(() => rm(directory, { recursive: true, force: true }));

async function render(values: object, ...further: readonly string[]): Promise<readonly KubeObject[]> {
  const args = [
    'template',
    'home',
    CHART,
    '--namespace',
    'home',
    ...SOME_IMAGES,
    '--values',
    '-',
    ...further,
  ];
  const { code, stdout, stderr } = await finish(helm, args, JSON.stringify(values));
  if (code !== 0) throw new Error(stderr);
  return parseAllDocuments(stdout)
    .map((document) => document.toJS() as KubeObject | null)
    .filter((object) => object !== null);
}

/** Names that a pod mounts without a volume, or that do not exist before the release is installed. */
function missing(pod: KubeObject | undefined): readonly string[] {
  const { volumes, containers, initContainers = [] } = pod!['spec'];
  const named = new Set(volumes.map(({ name }: { name: string }) => name));
  const mounted = [...containers, ...initContainers].flatMap(({ volumeMounts }) => volumeMounts);
  const unmade = volumes.filter(
    ({ configMap }: { configMap?: { name: string } }) => configMap?.name === 'space-ca',
  );
  return [...mounted.map(({ name }) => name).filter((name: string) => !named.has(name)), ...unmade];
}

describe('the pods that fill the volumes of a Space', () => {
  it('are made from the chart’s own pods, with their images, volumes, limits and security contexts', async () => {
    const objects = await render(BACKUP);
    const set = statefulSet(objects, 'postgres');
    const pod = databasePod(objects, '2026-11-21T10:30:00.123Z');
    const [container] = pod!['spec'].containers;
    expect(container.command).toEqual([
      '/bin/sh',
      '/usr/share/space/restore.sh',
      '2026-11-21 10:30:00.123+00',
    ]);
    const [server] = set!['spec'].template.spec.containers;
    expect(container).toMatchObject({ image: server.image, securityContext: server.securityContext });
    expect(container).not.toHaveProperty('readinessProbe');
    expect(pod?.['spec'].containers).toHaveLength(1);
    expect(claimOf(set!)).toMatchObject({
      metadata: { name: 'data-postgres-0', namespace: 'home-services' },
      spec: { accessModes: ['ReadWriteOnce'] },
    });
    const looking = [databaseBackupPod(objects), bucketBackupPod(objects)];
    for (const one of [pod, objectsPod(objects, undefined), statePod(objects), ...looking])
      expect(missing(one)).toEqual([]);
    expect(destinationSecret(objects)).toBe('the-key');
  });

  it('follow pods that check the backup, have no volume of the server and wait for commands', async () => {
    const objects = await render(BACKUP);
    const database = databaseBackupPod(objects)!;
    const names = database['spec'].volumes.map(({ name }: { name: string }) => name).sort();
    expect(names).toEqual(['backup-ca', 'backup-keys', 'backup-s3', 'run', 'tmp']);
    const bucket = bucketBackupPod(objects);
    for (const { spec } of [database, bucket])
      expect([
        spec.containers.length,
        spec.containers[0].command[0],
        spec.automountServiceAccountToken,
      ]).toEqual([1, '/bin/sh', false]);
    expect(JSON.stringify(bucket['spec'].containers[0].env)).not.toContain('"S3_CA_FILE"');
    const external = await render({ ...BACKUP, ...EXTERNAL });
    expect(databaseBackupPod(external)).toBeUndefined();
    expect(JSON.stringify(bucketBackupPod(external)['spec'].containers[0].env)).toContain(
      'https://s3.example.org',
    );
  });

  it('know from their chart what a backup of it would record', async () => {
    const known = knownTo(await render(BACKUP));
    expect(known).toEqual({
      version: expect.stringMatching(/^\d+\.\d+\.\d+/),
      schemas: { database: expect.any(Number), objectStore: expect.any(Number) },
    });
  });

  it('have the S3 server alone: it listens on the pod’s own loopback, in plain text', async () => {
    const { initContainers, containers } = objectsPod(await render(BACKUP), undefined)['spec'];
    expect(initContainers[0]).toMatchObject({
      args: ['--port', '127.0.0.1:7070', '--keep-alive', 'posix', '/data'],
      restartPolicy: 'Always',
    });
    expect(containers[0].args).toEqual(['restore']);
    expect(containers[0].env).toContainEqual({ name: 'S3_ENDPOINT', value: 'http://127.0.0.1:7070' });
    expect(JSON.stringify(containers[0].env)).not.toContain('"S3_CA_FILE"');
  });

  it('leave an external server to its owner, and fill an external bucket', async () => {
    const objects = await render({ ...BACKUP, ...EXTERNAL });
    expect(databasePod(objects, undefined)).toBeUndefined();
    const pod = objectsPod(objects, '2026-11-21T10:30:00.000Z');
    expect(pod['spec'].initContainers).toBeUndefined();
    expect(pod['spec'].containers[0].args).toEqual(['restore', '--at', '2026-11-21T10:30:00.000Z']);
    expect(JSON.stringify(pod['spec'].containers[0].env)).toContain('https://s3.example.org');
    expect(missing(pod)).toEqual([]);
  });

  it('have no limit of the processor, which a backup has', async () => {
    const objects = await render(BACKUP);
    const cron = objects.find(({ kind, metadata }) => kind === 'CronJob' && metadata.name === 'backup');
    const [container] = cron?.['spec'].jobTemplate.spec.template.spec.containers ?? [];
    expect(container.resources.limits).toMatchObject({ cpu: '50m', memory: '384Mi' });
    const [restoring] = objectsPod(objects, undefined)['spec'].containers;
    expect(restoring.resources).toEqual({
      ...container.resources,
      limits: { memory: container.resources.limits.memory },
    });
  });

  it('are refused for values without a backup', async () => {
    const objects = await render({});
    expect(() => destinationSecret(objects)).toThrow(/these values have no backup/);
  });
});

describe('a drill', () => {
  it('installs a Space that neither copies nor archives anything', async () => {
    const writers = (objects: readonly KubeObject[]) => [
      ...objects.filter(({ kind, metadata }) => kind === 'CronJob' && metadata.name === 'backup'),
      ...statefulSet(objects, 'postgres')!['spec'].template.spec.containers.filter(
        ({ name }: { readonly name: string }) => name === 'backup',
      ),
    ];
    expect(writers(await render(BACKUP))).toHaveLength(2);
    expect(writers(await render(BACKUP, ...DRILL_VALUES))).toEqual([]);
  });

  it.each<[string, object, string]>([
    ['PostgreSQL', { ...EXTERNAL, objectStore: {} }, 'postgres.external'],
    ['further servers', { postgres: { servers: [SERVER_B] } }, 'postgres.servers'],
    [
      'S3 server',
      { objectStore: EXTERNAL.objectStore, existingSecrets: { s3Root: 's3' } },
      'objectStore.external',
    ],
  ])('does not use the %s of the running Space', async (_, values, named) => {
    const { existingSecrets = {} } = values as { readonly existingSecrets?: object };
    const objects = await render({
      ...BACKUP,
      ...values,
      existingSecrets: { ...BACKUP.existingSecrets, ...existingSecrets },
    });
    expect(() => requireServersOfItsOwn(objects)).toThrow(`(${named}), whose data the drill would change`);
  });

  it('uses the chart’s own servers', async () => {
    expect(() => requireServersOfItsOwn([])).toThrow('postgres.external');
    const objects = await render(BACKUP);
    expect(() => requireServersOfItsOwn(objects)).not.toThrow();
  });
});
