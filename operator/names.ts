import { createHash } from 'node:crypto';

/** The settings of a Space that names and objects are derived from. */
export interface SpaceNames {
  readonly space: string;
  /** Where people keep Capsules, Assistants and stored inputs. */
  readonly namespace: string;
  /** Where the operator runs, with principals, sealed inputs, probes and its Lease. */
  readonly systemNamespace: string;
  readonly servicesNamespace: string;
  readonly runtimeClass: string;
  readonly handler: string;
  /** Reference of the attester's image, as the admission policy requires it. */
  readonly attesterImage: string;
  /** Secrets with registry credentials in the operator's namespace, for probes and Assistants. */
  readonly pullSecrets?: readonly string[];
  /** Absent if the Space runs PostgreSQL itself. */
  readonly databaseServer?: DatabaseServer | undefined;
  /** Further servers for Capsules; the broker decides which Capsule is on which. */
  readonly furtherDatabaseServers?: readonly DatabaseServer[];
  /** Addresses of the cluster's DNS servers, which no Assistant may ask. */
  readonly dnsServers?: readonly string[];
  /**
   * Role in the operator's namespace that names the principals which the console may read; absent without a console.
   */
  readonly consoleRole?: string | undefined;
  /** `probe`: on a node that reports no handlers, a probe that passed is enough. */
  readonly handlerReport: 'node' | 'probe';
  /** What becomes of running pods when the sandbox is lost; they are in the sandbox themselves. */
  readonly onLoss: 'keep' | 'stop';
  /** How long data is kept after its owner is deleted, in milliseconds; 0 drops it at once. */
  readonly graceMs: number;
}

/** A PostgreSQL server that the Space does not run, as Assistants, which have no DNS, reach it. */
export interface DatabaseServer {
  /** The server's name in URLs and in its certificate. */
  readonly host: string;
  readonly addresses: readonly string[];
  readonly port: number;
  /** Rules of a NetworkPolicy that let a pod connect to the server. */
  readonly egress: readonly object[];
}

/** The port of the first server, embedded or external. */
export const databasePort = ({ databaseServer }: Pick<SpaceNames, 'databaseServer'>): number =>
  databaseServer?.port ?? 5432;

export const GROUP = 'platform.space';
export const FIELD_MANAGER = 'space-operator';
export const CAPSULE_FINALIZER = `${GROUP}/capsule`;
export const ASSISTANT_FINALIZER = `${GROUP}/assistant`;

export const LABEL = {
  space: `${GROUP}/space`,
  capsule: `${GROUP}/capsule`,
  assistant: `${GROUP}/assistant`,
  component: `${GROUP}/component`,
  client: `${GROUP}/client`,
  retained: `${GROUP}/retained`,
} as const;

export const ANNOTATION = {
  /** Digest of the content that the operator last applied to this object. */
  applied: `${GROUP}/applied`,
  /** On an Assistant: the digest of the manifest that an administrator has approved. */
  approved: `${GROUP}/approved`,
  /** `true` lets others change an object that otherwise only the operator may change. */
  open: `${GROUP}/open`,
  /**
   * On a stored input's Secret: the digest of the definition that its value was entered for, then a text that
   * distinguishes entries.
   */
  enteredFor: `${GROUP}/entered-for`,
  /** UID of the Capsule or Assistant that owns an object, where an ownerReference cannot name it. */
  owner: `${GROUP}/owner-uid`,
  /**
   * On a principal: `begun` before its broker is told to drop, `true` once all that it authorises is dropped and
   * finalized.
   */
  finalized: `${GROUP}/finalized`,
  /**
   * On a Capsule while it is restored from a backup: the point in time of its data. Its Assistants have no pods until
   * then.
   */
  restoring: `${GROUP}/restoring`,
  /** On an Assistant or a Capsule: each new value requests once the URL that the broker has marked for rotation. */
  rotate: `${GROUP}/rotate`,
  /** On a Secret with a database's URL: the last such value that was served. */
  rotated: `${GROUP}/rotated`,
  /** On a Capsule's database principal: the limits that the broker has. */
  databaseLimits: `${GROUP}/database-limits`,
  /** On a Capsule's object-store principal: the quota in bytes that the broker has, or `default`. */
  provisioned: `${GROUP}/provisioned`,
  /** On a workload's object-store token: the digest that the broker has. */
  registered: `${GROUP}/registered`,
  /** Digest of a pod template and of all that it mounts. */
  revision: `${GROUP}/revision`,
  /** On a Deployment: when its pods were last requested again after a loss of the sandbox. */
  retried: `${GROUP}/retried-at`,
  /** On a pod: the version of the Secret whose grant the kubelet shall mount at once. */
  granted: `${GROUP}/granted`,
  /** On a probe: the node that it is for. */
  node: `${GROUP}/node`,
} as const;

/** The port of the object-storage broker's data listener. */
export const OBJECT_STORE_PORT = 8081;

/** `<space>-<capsule>-<8 hex>`, at most 63 bytes; the hash is over both, so that no two pairs share a name. */
export function capsuleNamespace(space: string, capsule: string): string {
  const hash = createHash('sha256').update(`${space}\0${capsule}`).digest('hex').slice(0, 8);
  const readable = `${space}-${capsule}`.slice(0, 63 - hash.length - 1).replace(/-+$/, '');
  return `${readable}-${hash}`;
}

/** The one type of Secret that an Assistant's stored input may be. */
export const STORED_INPUT_TYPE = `${GROUP}/stored-input`;

export const principalSecretName = (capsule: string) => `capsule-${capsule}-database`;
export const workloadSecretName = (id: string) => `${id}-database`;
/** The Secret is in a Capsule's namespace; no Secret of an id has such a name. */
export const PULL_SECRET = 'image-pull';
/** The gateway's name inside a pod. */
export const EGRESS_HOST = 'assistant-egress';

export const leaseName = (space: string) => `${space}-operator`;
/** Name of the ConfigMap in the operator's namespace with the specs of the release's admission policies. */
export const policiesName = (space: string) => `${space}-policies`;
export const objectPrincipalSecretName = (capsule: string) => `capsule-${capsule}-objectstore`;
export const workloadObjectsSecretName = (id: string) => `${id}-objectstore`;
export const secretsRoleName = (space: string) => `${space}-capsule-secrets`;
export const egressSecretName = (id: string) => `${id}-egress`;
/** The Secret is in the operator's namespace; neither part of its name contains a dot. */
export const sealedSecretName = (capsule: string, id: string) => `egress-${capsule}.${id}`;
