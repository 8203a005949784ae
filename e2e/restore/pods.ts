/** The pods that fill a Space's volumes before its first pod starts, made of what the chart would run. */
import type { KubeObject } from '../space/kube-object.ts';
import { RestoreProblem } from './problem.ts';

export type Container = KubeObject['spec']['containers'][number];

/** What a chart renders, as it is looked into here. */
export type Rendered = readonly KubeObject[];

const find = (objects: Rendered, kind: string, name: string) =>
  objects.find((object) => object.kind === kind && object.metadata.name === name);

/** The program that carries backups away, which brings them back as well. @throws RestoreProblem where there is none */
function carrier(objects: Rendered): KubeObject {
  const cron = find(objects, 'CronJob', 'backup');
  if (cron === undefined)
    throw new RestoreProblem(
      'these values have no backup: give those of the Space that is lost, with backup.enabled',
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

/** Of a container that does something else than it is for: nobody probes it, and it need not be slow for the sake of others. */
export function doing(container: Container, change: object): Container {
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

/** What the chart's own program makes when it is installed, and the token that only the container beside it needed. */
const NOT_YET = ['token', 'ca'];
const isThere = ({ name }: Named) => !NOT_YET.includes(name);

function carrierSpec(objects: Rendered) {
  const { initContainers, serviceAccountName, volumes, ...spec } =
    carrier(objects).spec.jobTemplate.spec.template.spec;
  return { ...spec, volumes: volumes.filter(isThere) };
}

/** Secret of the key of the bucket that backups are in. */
export function destinationSecret(objects: Rendered): string {
  const volumes: readonly { name: string; secret?: { secretName: string } }[] = carrierSpec(objects).volumes;
  return volumes.find(({ name }) => name === 'backup-s3')?.secret?.secretName ?? '';
}

/** Waits to be asked for the sealed state. It needs nothing that is in the state. */
export function statePod(objects: Rendered): KubeObject {
  const container = bucketContainer(objects);
  const needed = ['state', 'backup-s3', 'backup-ca'];
  const isNeeded = ({ name }: Named) => needed.includes(name);
  const spec = carrierSpec(objects);
  return podOf('restore-state', carrier(objects), {
    ...spec,
    volumes: spec.volumes.filter(isNeeded),
    containers: [
      doing(container, {
        command: ['sleep', 'infinity'],
        args: [],
        volumeMounts: container.volumeMounts.filter(isNeeded),
      }),
    ],
  });
}

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

/** Puts the database back; undefined where the Space has a server of its own, whose owner does that. */
export function databasePod(objects: Rendered, at: string | undefined): KubeObject | undefined {
  const set = statefulSet(objects, 'postgres');
  if (set === undefined) return undefined;
  const { containers, volumes, ...spec } = set['spec'].template.spec;
  const server = containers.find(({ name }: Container) => name === 'postgres');
  const command = ['/bin/sh', '/usr/share/space/restore.sh', ...(at === undefined ? [] : [asServerTime(at)])];
  return podOf('restore-database', set, {
    ...spec,
    volumes: [...volumes, dataOf(set)],
    containers: [doing(server, { command })],
  });
}

/** As PostgreSQL has it in `recovery_target_time`. */
const asServerTime = (at: string) => at.replace('T', ' ').replace(/Z$/, '+00');

/**
 * Puts the objects back: into the S3 server of one's own, or into the Space's, which runs beside it for so long and for
 * nobody else, since by the address that it listens on no other pod reaches it.
 */
export function objectsPod(objects: Rendered, at: string | undefined): KubeObject {
  const bucket = bucketContainer(objects);
  const args = ['restore', ...(at === undefined ? [] : ['--at', at])];
  const set = statefulSet(objects, 's3');
  const spec = carrierSpec(objects);
  if (set === undefined)
    return podOf('restore-objects', carrier(objects), { ...spec, containers: [doing(bucket, { args })] });
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
    // It ends when the other has, as sidecars do.
    initContainers: [
      {
        ...doing(server, { args: plain.map((arg) => (arg === ':7070' ? '127.0.0.1:7070' : arg)) }),
        restartPolicy: 'Always',
      },
    ],
    containers: [
      doing(bucket, {
        args,
        env: bucket.env
          .filter(({ name }: Named) => name !== 'S3_CA_FILE')
          .map((one: Named) =>
            one.name === 'S3_ENDPOINT' ? { ...one, value: 'http://127.0.0.1:7070' } : one,
          ),
      }),
    ],
  });
}
