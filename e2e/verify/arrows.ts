/**
 * The arrows of the picture in docs/architecture.md: who may open a connection to whom; all other connections are
 * closed. arrows.test.ts compares the chart's NetworkPolicies with them, and `npm run verify` a cluster.
 */

/** The parties of the picture: the components of a Space by their label, pods that people run, and one that is no component. */
export type Party =
  | 'operator'
  | 'console'
  | 'keys'
  | 'uninstall-guard'
  | 'release-test'
  | 'network-probe'
  | 'sandbox-probe'
  | 'db-broker'
  | 'objectstore-broker'
  | 'egress'
  | 'postgres'
  | 's3'
  | 'canary'
  | 'backup'
  | 'assistant'
  | 'client'
  | 'neighbour'
  | 'stranger'
  | 'unlabelled';

/**
 * Targets that are no pods of the Space: the cluster's DNS, and addresses in a component's own policy, which come
 * from the values.
 */
export type Beyond = 'dns' | 'addresses';

/** The values of a release that decide about its arrows. */
export interface Picture {
  /** Whether the Space is backed up to another bucket (`backup.enabled`). */
  readonly backup: boolean;
}

interface Arrow {
  readonly from: readonly Party[];
  readonly to: Party | Beyond;
  /** TCP ports; `any` includes other protocols. */
  readonly ports: readonly number[] | 'any';
  readonly udp?: readonly number[];
  /** The arrow exists only in a Space that has this. */
  readonly where?: keyof Picture;
}

/**
 * Pods to which no policy of the Space applies: marked as a client, beside the Capsules, and in a namespace of
 * others.
 */
export const FREE: readonly Party[] = ['client', 'neighbour', 'stranger'];

const ARROWS: readonly Arrow[] = [
  { from: ['assistant', 'network-probe', 'db-broker', 'objectstore-broker'], to: 'postgres', ports: [5432] },
  { from: ['assistant'], to: 'objectstore-broker', ports: [8081] },
  { from: ['assistant'], to: 'egress', ports: [3128] },
  { from: ['client'], to: 'assistant', ports: 'any' },
  { from: ['operator'], to: 'db-broker', ports: [8080] },
  { from: ['operator', 'console'], to: 'objectstore-broker', ports: [8080] },
  { from: ['operator', 'console'], to: 'egress', ports: [8080] },
  { from: ['objectstore-broker'], to: 's3', ports: [7070] },
  // At 7002 the canary represents a pod without policies of its own, and at 7003 one that nobody may reach; over UDP
  // at 7012 and 7013.
  { from: ['network-probe'], to: 'canary', ports: [7001], udp: [7011] },
  { from: FREE, to: 'canary', ports: [7002], udp: [7012] },
  {
    from: ['operator', 'console', 'uninstall-guard', 'db-broker', 'objectstore-broker', 'egress'],
    to: 'dns',
    ports: [53],
    udp: [53],
  },
  // The API server; for the gateway the outside; for the broker S3 servers that are not the Space's own.
  {
    from: ['operator', 'console', 'keys', 'uninstall-guard', 'release-test', 'objectstore-broker', 'egress'],
    to: 'addresses',
    ports: 'any',
  },
  // The CronJob's pods read the Space's bucket and the API server; they and PostgreSQL write to the bucket for backups.
  { from: ['backup'], to: 's3', ports: [7070], where: 'backup' },
  { from: ['backup', 'postgres'], to: 'dns', ports: [53], udp: [53], where: 'backup' },
  { from: ['backup', 'postgres'], to: 'addresses', ports: 'any', where: 'backup' },
];

export type Protocol = 'tcp' | 'udp' | 'icmp';

/** Whether there is an arrow from one to the other. */
export function isAllowed(
  picture: Picture,
  from: Party,
  to: Party | Beyond,
  protocol: Protocol,
  port: number,
): boolean {
  return ARROWS.some((arrow) => {
    if (arrow.where !== undefined && !picture[arrow.where]) return false;
    if (arrow.to !== to || !arrow.from.includes(from)) return false;
    if (arrow.ports === 'any') return true;
    return protocol === 'tcp'
      ? arrow.ports.includes(port)
      : protocol === 'udp' && arrow.udp?.includes(port) === true;
  });
}
