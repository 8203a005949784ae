/** The pod beside a running Space in which databases are copied, and the network policies for it. */
import type { KubeObject } from '../space/kube-object.ts';
import { databaseServers, operatorOf, waysToServers } from '../space/servers.ts';
import { MoveProblem } from './problem.ts';

type Rendered = readonly KubeObject[];

/** Objects that are created for one move, and are deleted with it. */
export interface TemporaryObjects {
  /** It has PostgreSQL's programs and the CAs of all servers, and no credential. It can reach only those servers. */
  readonly pod: KubeObject;
  readonly policies: readonly KubeObject[];
}

interface Named {
  readonly name: string;
}

const LABEL = 'platform.space/move';
/** This is longer than any move takes, so that a forgotten pod ends. */
const LONGEST_SECONDS = 172_800;
/** Space for the dumps of databases that are copied at one time. */
const DUMPS = '20Gi';
const IDLE = ['/bin/sh', '-c', `trap "exit 0" TERM; sleep ${LONGEST_SECONDS} & wait`];
/** Volumes of the broker's pod that contain only CAs. */
const AUTHORITIES = ['ca', 'postgres-ca'];
const FURTHER = '/etc/space/db-servers';

const find = (objects: Rendered, kind: string, name: string) =>
  objects.find((object) => object.kind === kind && object.metadata.name === name);

function required(objects: Rendered, kind: string, name: string): KubeObject {
  const found = find(objects, kind, name);
  if (found === undefined)
    throw new MoveProblem(
      `there is no ${kind} ${name}: name a running Space with --space. Nothing was changed`,
    );
  return found;
}

export interface TemporaryObjectsOptions {
  readonly space: string;
  readonly capsule: string;
  /** An image with pg_dump of the servers' version; by default that of the Space's own PostgreSQL. */
  readonly image?: string | undefined;
}

/** @throws MoveProblem if the Space has only one server, or no image is known */
export function temporaryObjects(
  { space, capsule, image }: TemporaryObjectsOptions,
  live: Rendered,
): TemporaryObjects {
  const broker = required(live, 'Deployment', 'db-broker');
  if (find(live, 'ConfigMap', 'db-servers') === undefined)
    throw new MoveProblem(
      'this Space has only one PostgreSQL server: add others with postgres.servers. Nothing was changed',
    );
  const pod = copyingPod(`move-${capsule}`, broker, hostAliases(space, live), image ?? imageOf(live));
  return { pod, policies: policiesFor(pod, live) };
}

function imageOf(live: Rendered): string {
  const containers = find(live, 'StatefulSet', 'postgres')?.['spec'].template.spec.containers ?? [];
  const image: string | undefined = containers.find(({ name }: Named) => name === 'postgres')?.image;
  if (image === undefined)
    throw new MoveProblem(
      'the first PostgreSQL server of this Space is external, so its image is unknown: name an image with copy.sh and the programs of your servers’ version with --image. Nothing was changed',
    );
  return image;
}

/** The servers' names in the URLs of Assistants, with the addresses that Assistants use. */
function hostAliases(space: string, live: Rendered) {
  const operator = required(live, 'Deployment', operatorOf(space));
  const servers = databaseServers(operator, find(live, 'Service', 'postgres'));
  return servers.flatMap(({ host, addresses }) => addresses.map((ip) => ({ ip, hostnames: [host] })));
}

function copyingPod(name: string, broker: KubeObject, aliases: object, image: string): KubeObject {
  const { containers, volumes = [], ...spec } = broker['spec'].template.spec;
  const [{ securityContext, imagePullPolicy, volumeMounts = [] }] = containers;
  const isAuthority = (one: Named) => AUTHORITIES.includes(one.name);
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace: broker.metadata.namespace ?? '', labels: { [LABEL]: name } },
    spec: {
      ...spec,
      automountServiceAccountToken: false,
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 1,
      activeDeadlineSeconds: LONGEST_SECONDS,
      hostAliases: aliases,
      volumes: [
        ...volumes.filter(isAuthority),
        { name: 'further', configMap: { name: 'db-servers', defaultMode: 0o444 } },
        { name: 'tmp', emptyDir: { sizeLimit: DUMPS } },
      ],
      containers: [
        {
          name: 'copy',
          image,
          imagePullPolicy,
          securityContext,
          command: IDLE,
          resources: { requests: { cpu: '100m', memory: '64Mi' }, limits: { memory: '512Mi' } },
          volumeMounts: [
            ...volumeMounts.filter(isAuthority),
            { name: 'further', mountPath: FURTHER, readOnly: true },
            { name: 'tmp', mountPath: '/tmp' },
          ],
        },
      ],
    },
  };
}

/** The broker's egress rules for the servers, without DNS, and ingress to the Space's own server. */
function policiesFor(pod: KubeObject, live: Rendered): readonly KubeObject[] {
  const egress = waysToServers(required(live, 'NetworkPolicy', 'db-broker'));
  const { name, namespace = '' } = pod.metadata;
  const only = { podSelector: { matchLabels: { [LABEL]: name } } };
  const policy = (named: string, spec: object): KubeObject => ({
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    metadata: { name: named, namespace, labels: { [LABEL]: name } },
    spec,
  });
  const own = find(live, 'NetworkPolicy', 'postgres');
  return [
    policy(name, { ...only, policyTypes: ['Ingress', 'Egress'], egress }),
    ...(own === undefined
      ? []
      : [
          policy(`${name}-in`, {
            podSelector: own['spec'].podSelector,
            policyTypes: ['Ingress'],
            ingress: [{ from: [only], ports: [{ port: 5432 }] }],
          }),
        ]),
  ];
}

/**
 * The same URL, with the path of the CA in the pod: that of the Space's own server, of an external main server, or of
 * a further one.
 */
export function withAuthority(url: string, server: string): string {
  const parsed = new URL(url);
  const root = parsed.searchParams.get('sslrootcert');
  if (root === null) return url;
  const first = root.endsWith('/ca.crt') ? '/etc/space/ca/ca.crt' : '/etc/space/postgres-ca/ca.crt';
  const path = server === 'main' ? first : `${FURTHER}/${server}.crt`;
  return url.replace(`sslrootcert=${root}`, `sslrootcert=${path}`);
}
