import type { Assistant } from '../kinds.ts';
import {
  databasePort,
  OBJECT_STORE_PORT,
  PULL_SECRET,
  type SpaceNames,
  workloadObjectsSecretName,
  workloadSecretName,
} from '../names.ts';
import { attesterSidecar } from '../sandbox/attester.ts';
import { type EgressBinding, type EgressParts, egressParts } from './egress-parts.ts';
import type { Workload } from './identity.ts';

const CONTAINER = 'assistant';
const DEFAULT_PORT = 8080;
const TEMPORARY_BYTES = '64Mi';
/** Everybody in the pod reads it and nobody writes it: the image's user is not known here. */
const READ_ONLY_MODE = 0o444;
/** Nothing listens there, so a look-up fails at once instead of after seconds. */
const DEAD_NAMESERVER = '127.0.0.1';
/** The name that Assistants know the data listener by, and where its token lies in what is mounted. */
const OBJECT_STORE = 'objectstore';
const OBJECT_STORE_TOKEN = 'credentials/OBJECT_STORE_TOKEN';
const OBJECT_STORE_GRANT = 'credentials/OBJECT_STORE_GRANT';

/** What a pod is made of when it has a database: a digest of its Secret, and which authorities are in it. */
export interface DatabaseAccess {
  readonly digest: string;
  /** The Space's. */
  readonly verified: boolean;
  /** Those that signed nothing but certificates of servers that the Space does not run. */
  readonly serverCa?: boolean;
}

/** Credentials and addresses that are not in the spec and are part of the pod all the same. */
export interface Bindings {
  readonly database: DatabaseAccess;
  readonly postgresAddress: string;
  /** What it must not reach, tried before anything of it starts. */
  readonly canaryAddresses: readonly string[];
  /** Left out in a Space without an object store. */
  readonly objects?: {
    readonly tokenDigest: string;
    readonly address: string;
    /** The Space's data plane uses grants, of which the Assistant may be given one. */
    readonly granted: boolean;
  };
  readonly egress?: EgressBinding | undefined;
}

export const portOf = ({ assistant }: Pick<Workload, 'assistant'>) => assistant.spec.port ?? DEFAULT_PORT;

/** A pod of an Assistant: one container in the sandbox, which reaches what it was bound to and nothing else. */
export function podSpec(workload: Workload, bindings: Bindings) {
  const { names } = workload;
  const { postgresAddress, canaryAddresses, objects, egress } = bindings;
  const services = [
    ...databaseAliases(names, postgresAddress),
    ...(objects ? [{ ip: objects.address, hostnames: [OBJECT_STORE] }] : []),
  ];
  const inside = [...new Set(services.flatMap(({ hostnames }) => hostnames))];
  const outside = egressParts(workload.manifest.platform.id, egress, inside);
  return {
    runtimeClassName: names.runtimeClass,
    automountServiceAccountToken: false,
    enableServiceLinks: false,
    dnsPolicy: 'None',
    dnsConfig: {
      nameservers: [DEAD_NAMESERVER],
      options: [
        { name: 'ndots', value: '0' },
        { name: 'attempts', value: '1' },
        { name: 'timeout', value: '1' },
      ],
    },
    ...(names.pullSecrets?.length ? { imagePullSecrets: [{ name: PULL_SECRET }] } : {}),
    hostAliases: [...services, ...outside.hostAliases],
    securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
    initContainers: [
      attesterSidecar(names.attesterImage, {
        canary: canaryAddresses,
        postgres: `${postgresAddress}:${databasePort(names)}`,
      }),
    ],
    containers: [assistantContainer(workload, bindings, outside)],
    volumes: [
      {
        name: 'space',
        projected: { defaultMode: READ_ONLY_MODE, sources: mountedSources(workload, bindings, outside) },
      },
      { name: 'tmp', emptyDir: { medium: 'Memory', sizeLimit: TEMPORARY_BYTES } },
    ],
  };
}

/** Names of all PostgreSQL servers, for a URL may name any of them. Kubernetes takes an address once, with all its names. */
function databaseAliases(
  { databaseServer, furtherDatabaseServers = [] }: SpaceNames,
  postgresAddress: string,
) {
  const first = databaseServer ?? { host: 'postgres', addresses: [postgresAddress] };
  const names = new Map<string, readonly string[]>();
  for (const { host, addresses } of [first, ...furtherDatabaseServers])
    for (const ip of addresses) names.set(ip, [...(names.get(ip) ?? []), host]);
  return [...names].map(([ip, hostnames]) => ({ ip, hostnames }));
}

/** The container of the user's image. */
function assistantContainer(workload: Workload, bindings: Bindings, outside: EgressParts) {
  const { image, command, args, resources } = workload.assistant.spec;
  const port = portOf(workload);
  return {
    name: CONTAINER,
    image,
    ...(command ? { command } : {}),
    ...(args ? { args } : {}),
    env: environment(workload, bindings, outside),
    ports: [{ name: 'http', containerPort: port, protocol: 'TCP' }],
    ...(resources ? { resources: asTexts(resources) } : {}),
    readinessProbe: { tcpSocket: { port }, periodSeconds: 1, timeoutSeconds: 1, failureThreshold: 3 },
    securityContext: {
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    },
    volumeMounts: [
      { name: 'space', mountPath: '/etc/space', readOnly: true },
      { name: 'tmp', mountPath: '/tmp' },
    ],
  };
}

/** What the spec says comes first, so that what the platform sets is the last word. */
function environment(workload: Workload, { database, objects }: Bindings, outside: EgressParts) {
  const { assistant, manifest } = workload;
  const { env = [] } = assistant.spec;
  const { id } = manifest.platform;
  // What has an authority speaks TLS, every service of it.
  const scheme = database.verified ? 'https' : 'http';
  const hasOwnAuthority = env.some(({ name }) => name === 'NODE_EXTRA_CA_CERTS');
  return [
    ...env.map(({ name, value = '' }) => ({ name, value })),
    { name: 'CAPSULE_ID', value: assistant.spec.capsule },
    { name: 'ASSISTANT_ID', value: id },
    { name: 'PORT', value: String(portOf(workload)) },
    // Drivers of Node that pay no heed to the URL's sslrootcert; others take it from there.
    ...(database.verified && !hasOwnAuthority
      ? [{ name: 'NODE_EXTRA_CA_CERTS', value: '/etc/space/tls/ca.crt' }]
      : []),
    {
      name: 'DATABASE_URL',
      valueFrom: { secretKeyRef: { name: workloadSecretName(id), key: 'DATABASE_URL' } },
    },
    ...(objects
      ? [
          { name: 'OBJECT_STORE_URL', value: `${scheme}://${OBJECT_STORE}:${OBJECT_STORE_PORT}` },
          { name: 'OBJECT_STORE_TOKEN_FILE', value: `/etc/space/${OBJECT_STORE_TOKEN}` },
        ]
      : []),
    ...(objects?.granted
      ? [{ name: 'OBJECT_STORE_GRANT_FILE', value: `/etc/space/${OBJECT_STORE_GRANT}` }]
      : []),
    ...outside.env,
  ];
}

/** Documents and credentials, as files of one volume. */
function mountedSources(workload: Workload, { database, objects }: Bindings, outside: EgressParts) {
  const { id } = workload.manifest.platform;
  const { manifest, genesis } = workload.documents;
  const databaseSecret = workloadSecretName(id);
  const objectsSecret = workloadObjectsSecretName(id);
  const file = (path: string) => [{ key: path.slice(path.indexOf('/') + 1), path }];
  return [
    { configMap: { name: manifest.name, items: file('manifest/manifest.json') } },
    { configMap: { name: genesis.name, items: file('genesis/genesis.txt') } },
    { secret: { name: databaseSecret, items: file('credentials/DATABASE_URL') } },
    ...(database.verified ? [{ secret: { name: databaseSecret, items: file('tls/ca.crt') } }] : []),
    ...(database.serverCa ? [{ secret: { name: databaseSecret, items: file('tls/postgres.crt') } }] : []),
    ...(objects
      ? [{ secret: { name: objectsSecret, items: [{ key: 'token', path: OBJECT_STORE_TOKEN }] } }]
      : []),
    // The key is there while its Capsule has selected credentials of its own.
    ...(objects?.granted
      ? [
          {
            secret: {
              name: objectsSecret,
              items: [{ key: 'grant', path: OBJECT_STORE_GRANT }],
              optional: true,
            },
          },
        ]
      : []),
    ...outside.sources,
  ];
}

/** Quantities may be numbers in YAML, and the server keeps them as text. */
function asTexts(resources: NonNullable<Assistant['spec']['resources']>) {
  return Object.fromEntries(
    Object.entries(resources).map(([part, quantities = {}]) => [
      part,
      Object.fromEntries(Object.entries(quantities).map(([name, quantity]) => [name, String(quantity)])),
    ]),
  );
}
