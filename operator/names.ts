import { createHash } from 'node:crypto';

/** The names that decide everything else. */
export interface SpaceNames {
  readonly space: string;
  /** Where people keep Capsules, Assistants and stored inputs. */
  readonly namespace: string;
  /** Where the operator runs, with principals, sealed inputs, probes and its Lease. */
  readonly systemNamespace: string;
  readonly servicesNamespace: string;
  readonly runtimeClass: string;
  readonly handler: string;
  /** Reference of the attester's image, as the admission policy demands it. */
  readonly attesterImage: string;
  /** Secrets beside the operator with credentials of registries, for probes and Assistants. */
  readonly pullSecrets?: readonly string[];
  /** Left out where the Space runs its PostgreSQL itself. */
  readonly databaseServer?: DatabaseServer | undefined;
  /** Those that Capsules may be placed on beside the first; which one has whom is the broker's to know. */
  readonly furtherDatabaseServers?: readonly DatabaseServer[];
  /** Addresses of the cluster's DNS servers, which no Assistant may ask. */
  readonly dnsServers?: readonly string[];
  /** Role beside the operator that names the principals which the console may read; left out where there is none. */
  readonly consoleRole?: string | undefined;
  /** `probe`: where a node reports no handlers, a probe that passed there is enough. */
  readonly handlerReport: 'node' | 'probe';
  /** What becomes of pods that run when the sandbox is found lost; they are in the sandbox themselves. */
  readonly onLoss: 'keep' | 'stop';
  /** How long data outlives the deletion of what it belongs to; 0 drops it at once. */
  readonly graceMs: number;
}

/** A PostgreSQL that the Space does not run, as its Assistants, who have no DNS, reach it. */
export interface DatabaseServer {
  /** The name in their URLs and in its certificate. */
  readonly host: string;
  readonly addresses: readonly string[];
  readonly port: number;
  /** Rules of a NetworkPolicy that let a pod to it. */
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
  /** Digest of what the operator last wished of this object. */
  applied: `${GROUP}/applied`,
  /** On an Assistant: the digest of the manifest that an administrator has approved. */
  approved: `${GROUP}/approved`,
  /** `true` opens an object that only the operator touches to others. */
  open: `${GROUP}/open`,
  /** On a stored input's Secret: the digest of the definition that its value was entered for, and what tells entries apart. */
  enteredFor: `${GROUP}/entered-for`,
  /** UID of the Capsule or Assistant that an object belongs to, where an ownerReference cannot say it. */
  owner: `${GROUP}/owner-uid`,
  /** On a principal: `begun` before its broker is told to drop, `true` once all that it opened is dropped and finalized. */
  finalized: `${GROUP}/finalized`,
  /** On a Capsule, while it is made again from a backup: the moment that its data is to be of. Its Assistants have no pods. */
  restoring: `${GROUP}/restoring`,
  /** On an Assistant or a Capsule: each new value asks once for the URL that the broker has marked for rotation. */
  rotate: `${GROUP}/rotate`,
  /** On a Secret with a database's URL: the last such value that was served. */
  rotated: `${GROUP}/rotated`,
  /** On a Capsule's database principal: the limits with which the broker knows it. */
  databaseLimits: `${GROUP}/database-limits`,
  /** On a Capsule's object-store principal: the quota in bytes, or `default`, with which the broker knows it. */
  provisioned: `${GROUP}/provisioned`,
  /** On a workload's object-store token: the digest with which the broker knows it. */
  registered: `${GROUP}/registered`,
  /** Digest of a pod template and of all that it mounts. */
  revision: `${GROUP}/revision`,
  /** On a Deployment: when its pods were last asked for anew, after the sandbox was lost. */
  retried: `${GROUP}/retried-at`,
  /** On a pod: the version of the Secret whose grant the kubelet shall bring at once. */
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
/** It lies in a Capsule's namespace; no id's Secret has such a name. */
export const PULL_SECRET = 'image-pull';
/** The gateway's name inside a pod. */
export const EGRESS_HOST = 'assistant-egress';

export const leaseName = (space: string) => `${space}-operator`;
/** In the operator's namespace: what the admission policies of the release say. */
export const policiesName = (space: string) => `${space}-policies`;
export const objectPrincipalSecretName = (capsule: string) => `capsule-${capsule}-objectstore`;
export const workloadObjectsSecretName = (id: string) => `${id}-objectstore`;
export const secretsRoleName = (space: string) => `${space}-capsule-secrets`;
export const egressSecretName = (id: string) => `${id}-egress`;
/** It lies in the operator's namespace; neither part has a dot. */
export const sealedSecretName = (capsule: string, id: string) => `egress-${capsule}.${id}`;
