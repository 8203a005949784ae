import type { Assistant } from '../kinds.ts';
import {
  databasePort,
  OBJECT_STORE_PORT,
  PULL_SECRET,
  type SpaceNames,
  workloadObjectsSecretName,
  workloadSecretName,
} from '../names.ts';
import { assistantAttester } from '../sandbox/attester.ts';
import { type EgressBinding, type EgressParts, egressParts } from './egress-parts.ts';
import type { Workload } from './identity.ts';

const CONTAINER = 'assistant';
const DEFAULT_PORT = 8080;
const TEMPORARY_BYTES = '64Mi';
/** Every user in the pod may read and nobody may write, since the user of the image is not known here. */
const READ_ONLY_MODE = 0o444;
/** Nothing listens at this address, so a DNS look-up fails at once instead of after seconds. */
const DEAD_NAMESERVER = '127.0.0.1';
/** The host name of the object store's data listener inside a pod. */
const OBJECT_STORE = 'objectstore';
const OBJECT_STORE_TOKEN = 'credentials/OBJECT_STORE_TOKEN';
const OBJECT_STORE_GRANT = 'credentials/OBJECT_STORE_GRANT';

/** What a pod with a database depends on: a digest of its Secret, and which authorities the Secret contains. */
export interface DatabaseAccess {
  readonly digest: string;
  /** The Secret contains the Space's authority. */
  readonly verified: boolean;
  /** The Secret contains authorities of servers that the Space does not run; they are trusted for nothing else. */
  readonly serverCa?: boolean;
}

/** Credentials and addresses that are part of the pod and not of the Assistant's spec. */
export interface Bindings {
  readonly database: DatabaseAccess;
  readonly postgresAddress: string;
  /** Addresses that must be unreachable; the attester tries them before anything else starts. */
  readonly canaryAddresses: readonly string[];
  /** Absent in a Space without an object store. */
  readonly objects?: {
    readonly tokenDigest: string;
    readonly address: string;
    /** Whether the data plane of the Space uses grants, so that the Assistant may get one. */
    readonly granted: boolean;
  };
  readonly egress?: EgressBinding | undefined;
}

export const portOf = ({ assistant }: Pick<Workload, 'assistant'>) => assistant.spec.port ?? DEFAULT_PORT;

/** The pod of an Assistant: one container in the sandbox, which reaches only what it is bound to. */
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
      assistantAttester(names.attesterImage, {
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

/**
 * Names of all PostgreSQL servers, since the URL may name any of them. Kubernetes accepts an address only once, with
 * all of its names.
 */
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

/** Variables of the spec come first, so that those of the platform take precedence. */
function environment(workload: Workload, { database, objects }: Bindings, outside: EgressParts) {
  const { assistant, manifest } = workload;
  const { env = [] } = assistant.spec;
  const { id } = manifest.platform;
  // If the Space has an authority, all of its services use TLS.
  const scheme = database.verified ? 'https' : 'http';
  const hasOwnAuthority = env.some(({ name }) => name === 'NODE_EXTRA_CA_CERTS');
  return [
    ...env.map(({ name, value = '' }) => ({ name, value })),
    { name: 'CAPSULE_ID', value: assistant.spec.capsule },
    { name: 'ASSISTANT_ID', value: id },
    { name: 'PORT', value: String(portOf(workload)) },
    // Some Node drivers ignore sslrootcert in the URL; all other drivers read it there.
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

/** Documents and credentials as sources of one projected volume. */
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
    // The key exists while the Capsule has selected credentials of its own.
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

/** YAML allows quantities as numbers, and the API server stores them as strings. */
function asTexts(resources: NonNullable<Assistant['spec']['resources']>) {
  return Object.fromEntries(
    Object.entries(resources).map(([part, quantities = {}]) => [
      part,
      Object.fromEntries(Object.entries(quantities).map(([name, quantity]) => [name, String(quantity)])),
    ]),
  );
}
