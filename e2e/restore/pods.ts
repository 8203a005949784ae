/** The pods that fill a Space's volumes before its first pod starts, made from what the chart would run. */
import type { KubeObject } from '../space/kube-object.ts';
import { asServerTime } from './copies.ts';
import { RestoreProblem } from './problem.ts';
import type { Known } from './state.ts';

export type Container = KubeObject['spec']['containers'][number];

/** The objects that a chart renders. */
export type Rendered = readonly KubeObject[];

const find = (objects: Rendered, kind: string, name: string) =>
  objects.find((object) => object.kind === kind && object.metadata.name === name);

/** The CronJob of backups, whose program also restores them. @throws RestoreProblem if there is none */
function carrier(objects: Rendered): KubeObject {
  const cron = find(objects, 'CronJob', 'backup');
  if (cron === undefined)
    throw new RestoreProblem(
      'these values have no backup: give the values of the lost Space, with backup.enabled',
    );
  return cron;
}

const LABEL = 'platform.space/restore';

export function podOf(name: string, like: KubeObject, spec: object): KubeObject {
  const { namespace } = like.metadata;
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, ...(namespace === undefined ? {} : { namespace }), labels: { [LABEL]: name } },
    spec: { ...spec, restartPolicy: 'Never', terminationGracePeriodSeconds: 5 },
  };
}

/** Changes a container for another task: without probes, and without the limits that protect others from a backup. */
export function forTask(container: Container, change: object): Container {
  const { startupProbe, readinessProbe, livenessProbe, lifecycle, ports, resources, ...rest } = container;
  const { cpu, ...limits } = resources?.limits ?? {};
  return { ...rest, ...(resources === undefined ? {} : { resources: { ...resources, limits } }), ...change };
}

function bucketContainer(objects: Rendered): Container {
  const [container] = carrier(objects).spec.jobTemplate.spec.template.spec.containers;
  return { ...container, volumeMounts: container.volumeMounts.filter(isThere) };
}

interface Named {
  readonly name: string;
}

/**
 * Volumes that do not exist before the release is installed, and the token that only the container beside it needs.
 */
const NOT_YET = ['token', 'ca'];
const isThere = ({ name }: Named) => !NOT_YET.includes(name);

function carrierSpec(objects: Rendered) {
  const { initContainers, serviceAccountName, volumes, ...spec } =
    carrier(objects).spec.jobTemplate.spec.template.spec;
  return { ...spec, volumes: volumes.filter(isThere) };
}

/** The Secret with the key of the bucket that backups are in. */
export function destinationSecret(objects: Rendered): string {
  const volumes: readonly { name: string; secret?: { secretName: string } }[] = carrierSpec(objects).volumes;
  return volumes.find(({ name }) => name === 'backup-s3')?.secret?.secretName ?? '';
}

/** A pod that waits for requests for the sealed state. It needs nothing that is in the state. */
export function statePod(objects: Rendered): KubeObject {
  const container = bucketContainer(objects);
  const needed = ['state', 'backup-s3', 'backup-ca'];
  const isNeeded = ({ name }: Named) => needed.includes(name);
  const spec = carrierSpec(objects);
  return podOf('restore-state', carrier(objects), {
    ...spec,
    volumes: spec.volumes.filter(isNeeded),
    containers: [
      forTask(container, {
        command: IDLE,
        args: [],
        volumeMounts: container.volumeMounts.filter(isNeeded),
      }),
    ],
  });
}

/**
 * The same beside a running Space, with the labels by which network policies let the Jobs of its backup reach the
 * bucket.
 */
export function statePodBesideSpace(objects: Rendered): KubeObject {
  const { labels } = carrier(objects).spec.jobTemplate.spec.template.metadata;
  const pod = statePod(objects);
  return { ...pod, metadata: { ...pod.metadata, labels: { ...labels, ...pod.metadata.labels } } };
}

/**
 * Waits until it is asked to do something. It ends after longer than any restore takes, so that no forgotten pod
 * stays.
 */
export const IDLE = ['/bin/sh', '-c', 'trap "exit 0" TERM; sleep 172800 & wait'];

/** The volumes that PostgreSQL's programs need to read a backup; they write only temporary files. */
const READING = ['run', 'tmp', 'backup-s3', 'backup-keys', 'backup-ca'];

/**
 * A pod that reads the backup of the database; undefined if the Space has a server of its own, whose owner restores
 * it.
 */
export function databaseBackupPod(objects: Rendered): KubeObject | undefined {
  const set = statefulSet(objects, 'postgres');
  if (set === undefined) return undefined;
  const isNeeded = ({ name }: Named) => READING.includes(name);
  const { containers, volumes, ...spec } = set['spec'].template.spec;
  const server = containers.find(({ name }: Container) => name === 'postgres');
  const container = forTask(server, { command: IDLE, volumeMounts: server.volumeMounts.filter(isNeeded) });
  return podOf('restore-database-look', set, {
    ...spec,
    automountServiceAccountToken: false,
    volumes: volumes.filter(isNeeded),
    containers: [container],
  });
}

/** A pod that reads the backup of the bucket, and the bucket too if it is external. */
export function bucketBackupPod(objects: Rendered): KubeObject {
  const bucket = bucketContainer(objects);
  const env = statefulSet(objects, 's3') === undefined ? bucket.env : besideTheServer(bucket);
  return podOf('restore-objects-look', carrier(objects), {
    ...carrierSpec(objects),
    containers: [forTask(bucket, { command: IDLE, args: [], env })],
  });
}

/** For the bucket's program in one pod with the server, which then serves nobody else. */
const besideTheServer = ({ env }: Container) =>
  env
    .filter(({ name }: Named) => name !== 'S3_CA_FILE')
    .map((one: Named) => (one.name === 'S3_ENDPOINT' ? { ...one, value: 'http://127.0.0.1:7070' } : one));

/** What this version of the chart knows, from what it makes a backup record about itself. */
export function knownTo(objects: Rendered): Known {
  const [{ env }] = carrier(objects).spec.jobTemplate.spec.template.spec.initContainers;
  const options = env.find(({ name }: Named) => name === 'BACKUP');
  // A release from before backups recorded that knows none.
  const { version = '0', schemas = {} } = JSON.parse(options.value);
  return { version, schemas };
}

/** CAs of external servers, which the chart creates beside the programs that trust them. */
export const authorities = (objects: Rendered) =>
  objects.filter(
    ({ kind, metadata }) =>
      kind === 'ConfigMap' && ['backup-ca', 'objectstore-s3-ca'].includes(metadata.name),
  );

export interface Destination {
  /** The key of the bucket that the backup is in. */
  readonly key: { readonly access: string; readonly secret: string };
}

export const destination = ({ key }: Destination, objects: Rendered, namespace: string) => ({
  apiVersion: 'v1',
  kind: 'Secret',
  metadata: { name: destinationSecret(objects), namespace },
  stringData: { 'access-key': key.access, 'secret-key': key.secret },
});

/** The claim that a StatefulSet's first pod will have. */
export function claimOf(set: KubeObject): KubeObject {
  const [{ metadata, spec }] = set['spec'].volumeClaimTemplates;
  const name = `${metadata.name}-${set.metadata.name}-0`;
  return {
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { ...metadata, name, namespace: set.metadata.namespace },
    spec,
  };
}

export const statefulSet = (objects: Rendered, name: string) => find(objects, 'StatefulSet', name);

const dataOf = (set: KubeObject) => ({
  name: 'data',
  persistentVolumeClaim: { claimName: claimOf(set).metadata.name },
});

/** The pod that restores the database; undefined if the Space has a server of its own, whose owner does that. */
export function databasePod(objects: Rendered, at: string | undefined): KubeObject | undefined {
  const set = statefulSet(objects, 'postgres');
  if (set === undefined) return undefined;
  const { containers, volumes, ...spec } = set['spec'].template.spec;
  const server = containers.find(({ name }: Container) => name === 'postgres');
  const command = ['/bin/sh', '/usr/share/space/restore.sh', ...(at === undefined ? [] : [asServerTime(at)])];
  return podOf('restore-database', set, {
    ...spec,
    volumes: [...volumes, dataOf(set)],
    containers: [forTask(server, { command })],
  });
}

/**
 * The pod that restores the objects: into the external S3 server, or into the Space's, which runs beside it
 * meanwhile. No other pod can reach that server at the address that it listens on.
 */
export function objectsPod(objects: Rendered, at: string | undefined): KubeObject {
  const bucket = bucketContainer(objects);
  const args = ['restore', ...(at === undefined ? [] : ['--at', at])];
  const set = statefulSet(objects, 's3');
  const spec = carrierSpec(objects);
  if (set === undefined)
    return podOf('restore-objects', carrier(objects), { ...spec, containers: [forTask(bucket, { args })] });
  const { containers, volumes, securityContext } = set['spec'].template.spec;
  const [server] = containers;
  const named = new Set(spec.volumes.map(({ name }: Named) => name));
  const plain: readonly string[] = server.args.filter(
    (arg: string, index: number) =>
      !/^--(cert|key)$/.test(arg) && !/^--(cert|key)$/.test(server.args[index - 1] ?? ''),
  );
  return podOf('restore-objects', set, {
    ...spec,
    securityContext,
    volumes: [...spec.volumes, ...volumes.filter(({ name }: Named) => !named.has(name)), dataOf(set)],
    // It ends when the other container has ended, as sidecars do.
    initContainers: [
      {
        ...forTask(server, { args: plain.map((arg) => (arg === ':7070' ? '127.0.0.1:7070' : arg)) }),
        restartPolicy: 'Always',
      },
    ],
    containers: [
      forTask(bucket, {
        args,
        env: besideTheServer(bucket),
      }),
    ],
  });
}
