/** Pods beside a running Space through which one Capsule's data is restored, and the network policies for them. */
import type { KubeObject } from '../../space/kube-object.ts';
import { databaseServers, operatorOf, waysToServers } from '../../space/servers.ts';
import { type Container, forTask, IDLE, podOf, type Rendered, statefulSet } from '../pods.ts';
import { RestoreProblem } from '../problem.ts';

/** Objects that are created for one restore, and are deleted with it. */
export interface TemporaryObjects {
  /** A server with the data of the Space's server at that moment; it can reach only the bucket of the backup. */
  readonly scratch: KubeObject;
  /** It has only the URLs that it is given, and can reach only the Space's PostgreSQL servers. */
  readonly loader: KubeObject;
  /** Copies objects from the backup's bucket to the Space's. */
  readonly objects: KubeObject;
  readonly policies: readonly KubeObject[];
}

const LABEL = 'platform.space/restore';
/** This is longer than any restore takes. */
const LONGEST_SECONDS = 172_800;

interface Named {
  readonly name: string;
}

/** @throws RestoreProblem if the Space has no backup, or an external PostgreSQL as its main server */
export function temporaryObjects(name: string, live: Rendered): TemporaryObjects {
  const set = statefulSet(live, 'postgres');
  const cron = live.find(({ kind, metadata }) => kind === 'CronJob' && metadata.name === 'backup');
  if (cron === undefined)
    throw new RestoreProblem(
      'this Space has no backup (backup.enabled) from which a Capsule could be restored. Nothing was changed',
    );
  if (set === undefined)
    throw new RestoreProblem(
      'this Space uses an external PostgreSQL (postgres.external): whoever operates that server has to restore a Capsule from its backup. Nothing was changed',
    );
  const scratch = scratchPod(`restore-${name}-scratch`, set);
  const loader = loaderPod(`restore-${name}-loader`, set);
  const objects = objectsPod(`restore-${name}-objects`, cron);
  return { scratch, loader, objects, policies: policies(live, scratch, loader) };
}

const idle = (pod: KubeObject): KubeObject => ({
  ...pod,
  spec: {
    ...pod['spec'],
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 1,
    activeDeadlineSeconds: LONGEST_SECONDS,
  },
});

function serverOf(set: KubeObject) {
  const { containers, volumes, ...spec } = set['spec'].template.spec;
  const server: Container = containers.find(({ name }: Container) => name === 'postgres');
  return { server, volumes, spec };
}

/** The pod gets no volume, certificate or password of the Space's server. */
const SCRATCH = ['data', 'run', 'tmp', 'backup-s3', 'backup-keys', 'backup-ca'];
const isFor =
  (names: readonly string[]) =>
  ({ name }: Named) =>
    names.includes(name);

function scratchPod(name: string, set: KubeObject): KubeObject {
  const { server, volumes, spec } = serverOf(set);
  const [claim] = set['spec'].volumeClaimTemplates;
  const sizeLimit = claim.spec.resources.requests.storage;
  return idle(
    podOf(name, set, {
      ...spec,
      volumes: [...volumes.filter(isFor(SCRATCH)), { name: 'data', emptyDir: { sizeLimit } }],
      containers: [
        forTask(server, { command: IDLE, volumeMounts: server.volumeMounts.filter(isFor(SCRATCH)) }),
      ],
    }),
  );
}

function loaderPod(name: string, set: KubeObject): KubeObject {
  const { server, spec } = serverOf(set);
  return idle(
    podOf(name, set, {
      ...spec,
      volumes: [{ name: 'tmp', emptyDir: { medium: 'Memory', sizeLimit: '1Mi' } }],
      containers: [
        forTask(server, { command: IDLE, env: [], volumeMounts: [{ name: 'tmp', mountPath: '/tmp' }] }),
      ],
    }),
  );
}

/** It has the labels of the pods of the backup's Job, which the network policies let reach both buckets. */
function objectsPod(name: string, cron: KubeObject): KubeObject {
  const { metadata, spec: whole } = cron['spec'].jobTemplate.spec.template;
  const { initContainers, serviceAccountName, volumes, containers, ...spec } = whole;
  const [container] = containers;
  const mounted = new Set(container.volumeMounts.map(({ name }: Named) => name));
  const pod = podOf(name, cron, {
    ...spec,
    volumes: volumes.filter(({ name }: Named) => mounted.has(name)),
    containers: [forTask(container, { command: IDLE, args: [] })],
  });
  return idle({
    ...pod,
    metadata: { ...pod.metadata, labels: { ...metadata.labels, ...pod.metadata.labels } },
  });
}

function policies(live: Rendered, scratch: KubeObject, loader: KubeObject): readonly KubeObject[] {
  const of = (name: string) =>
    live.find(({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === name);
  const [server, broker] = [of('postgres'), of('db-broker')];
  const egress = server?.['spec'].egress;
  if (server === undefined || egress === undefined)
    throw new RestoreProblem(
      'NetworkPolicy postgres of the Space is missing, or has no egress rule for the backup: repair the release with helm upgrade',
    );
  if (broker === undefined)
    throw new RestoreProblem(
      'NetworkPolicy db-broker of the Space is missing: repair the release with helm upgrade',
    );
  const { namespace = '' } = scratch.metadata;
  const policy = (name: string, spec: object): KubeObject => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name, namespace, labels: { [LABEL]: name } },
    spec,
  });
  const only = ({ metadata }: KubeObject) => ({ podSelector: { matchLabels: { [LABEL]: metadata.name } } });
  const { podSelector } = server['spec'];
  return [
    policy(scratch.metadata.name, { ...only(scratch), policyTypes: ['Ingress', 'Egress'], egress }),
    policy(loader.metadata.name, {
      ...only(loader),
      policyTypes: ['Ingress', 'Egress'],
      egress: waysToServers(broker),
    }),
    policy(`${loader.metadata.name}-in`, {
      podSelector,
      policyTypes: ['Ingress'],
      ingress: [{ from: [only(loader)], ports: [{ port: 5432 }] }],
    }),
  ];
}

/** The address of each server for pods, by the host in URLs. */
export function addressesIn(space: string, live: Rendered): ReadonlyMap<string, string> {
  const of = (kind: string, name: string) =>
    live.find((one) => one.kind === kind && one.metadata.name === name);
  const operator = of('Deployment', operatorOf(space));
  if (operator === undefined)
    throw new RestoreProblem(
      `Deployment ${operatorOf(space)} of the Space is missing: repair the release with helm upgrade`,
    );
  const servers = databaseServers(operator, of('Service', 'postgres'));
  return new Map(servers.map(({ host, addresses }) => [host, addresses[0] ?? '']));
}
