import type { Assistant } from '../kinds.ts';
import {
  ANNOTATION,
  OBJECT_STORE_PORT,
  PULL_SECRET,
  workloadObjectsSecretName,
  workloadSecretName,
} from '../names.ts';
import type { Desired } from '../runtime/apply.ts';
import { digestOf } from '../runtime/digest.ts';
import { attesterSidecar } from '../sandbox/attester.ts';
import { type EgressBinding, egressParts } from './egress-parts.ts';
import { type Workload, workloadLabels, workloadMetadata } from './identity.ts';

const CONTAINER = 'assistant';
const DEFAULT_PORT = 8080;
const TEMPORARY_BYTES = '64Mi';
/** Read by everybody in the pod, written by nobody: the image's user is not known here. */
const READ_ONLY_MODE = 0o444;
/** Nothing listens there, so a look-up fails at once instead of after seconds. */
const DEAD_NAMESERVER = '127.0.0.1';
/** The name that Assistants know the data listener by, and where its token lies in what is mounted. */
const OBJECT_STORE = 'objectstore';
const OBJECT_STORE_TOKEN = 'credentials/OBJECT_STORE_TOKEN';
const OBJECT_STORE_GRANT = 'credentials/OBJECT_STORE_GRANT';

const idOf = ({ manifest }: Workload) => manifest.platform.id;
const portOf = ({ assistant }: Workload) => assistant.spec.port ?? DEFAULT_PORT;

export function serviceObject(workload: Workload): Desired {
  const port = portOf(workload);
  return {
    metadata: workloadMetadata(workload, idOf(workload)),
    spec: {
      type: 'ClusterIP',
      selector: workloadLabels(workload),
      ports: [{ name: 'http', protocol: 'TCP', port, targetPort: port }],
    },
  };
}

/** What a pod is made of when it has a database: a digest of its Secret, and whether an authority is in it. */
export interface DatabaseAccess {
  readonly digest: string;
  readonly verified: boolean;
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

export function deploymentObject(
  workload: Workload,
  bindings: Bindings,
): { desired: Desired; revision: string } {
  const labels = workloadLabels(workload);
  const { annotations, ...rest } = workloadMetadata(workload, idOf(workload));
  const spec = podSpec(workload, bindings);
  // Names of ConfigMaps say what is in them; a Secret's name does not.
  const secrets = [
    bindings.database.digest,
    ...(bindings.objects ? [bindings.objects.tokenDigest] : []),
    ...(bindings.egress ? [bindings.egress.principalDigest] : []),
  ];
  const revision = digestOf([labels, spec, ...secrets]).slice(0, 16);
  return {
    revision,
    desired: {
      metadata: { ...rest, annotations },
      spec: {
        replicas: workload.assistant.spec.replicas ?? 1,
        revisionHistoryLimit: 1,
        strategy: { type: 'RollingUpdate', rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } },
        selector: { matchLabels: labels },
        template: {
          metadata: { labels, annotations: { ...annotations, [ANNOTATION.revision]: revision } },
          spec,
        },
      },
    },
  };
}

function podSpec(workload: Workload, bindings: Bindings) {
  const { postgresAddress, canaryAddresses, database, objects, egress } = bindings;
  const { names, assistant } = workload;
  const { image, command, args, env = [], resources } = assistant.spec;
  const id = idOf(workload);
  const port = portOf(workload);
  const secret = workloadSecretName(id);
  // What has an authority speaks TLS, every service of it.
  const scheme = database.verified ? 'https' : 'http';
  const { manifest, genesis } = workload.documents;
  const services = [
    { ip: postgresAddress, hostnames: ['postgres'] },
    ...(objects ? [{ ip: objects.address, hostnames: [OBJECT_STORE] }] : []),
  ];
  const outside = egressParts(
    id,
    egress,
    services.flatMap(({ hostnames }) => hostnames),
  );
  const file = (path: string) => [{ key: path.slice(path.indexOf('/') + 1), path }];
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
      attesterSidecar(names.attesterImage, { canary: canaryAddresses, postgres: postgresAddress }),
    ],
    containers: [
      {
        name: CONTAINER,
        image,
        ...(command ? { command } : {}),
        ...(args ? { args } : {}),
        env: [
          ...env.map(({ name, value = '' }) => ({ name, value })),
          { name: 'CAPSULE_ID', value: assistant.spec.capsule },
          { name: 'ASSISTANT_ID', value: id },
          { name: 'PORT', value: String(port) },
          // Drivers of Node that pay no heed to the URL's sslrootcert; others take it from there.
          ...(database.verified && !env.some(({ name }) => name === 'NODE_EXTRA_CA_CERTS')
            ? [{ name: 'NODE_EXTRA_CA_CERTS', value: '/etc/space/tls/ca.crt' }]
            : []),
          { name: 'DATABASE_URL', valueFrom: { secretKeyRef: { name: secret, key: 'DATABASE_URL' } } },
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
        ],
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
      },
    ],
    volumes: [
      {
        name: 'space',
        projected: {
          defaultMode: READ_ONLY_MODE,
          sources: [
            { configMap: { name: manifest.name, items: file('manifest/manifest.json') } },
            { configMap: { name: genesis.name, items: file('genesis/genesis.txt') } },
            { secret: { name: secret, items: file('credentials/DATABASE_URL') } },
            ...(database.verified ? [{ secret: { name: secret, items: file('tls/ca.crt') } }] : []),
            ...(objects
              ? [
                  {
                    secret: {
                      name: workloadObjectsSecretName(id),
                      items: [{ key: 'token', path: OBJECT_STORE_TOKEN }],
                    },
                  },
                ]
              : []),
            // There while its Capsule has selected credentials of its own.
            ...(objects?.granted
              ? [
                  {
                    secret: {
                      name: workloadObjectsSecretName(id),
                      items: [{ key: 'grant', path: OBJECT_STORE_GRANT }],
                      optional: true,
                    },
                  },
                ]
              : []),
            ...outside.sources,
          ],
        },
      },
      { name: 'tmp', emptyDir: { medium: 'Memory', sizeLimit: TEMPORARY_BYTES } },
    ],
  };
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
