import { isIP } from 'node:net';
import { type Finding, no, unknown, yes } from '../conditions.ts';
import type { Node } from '../kinds.ts';
import { databasePort, LABEL, type SpaceNames } from '../names.ts';
import type { KubeObject } from '../runtime/kube-object.ts';
import { addressesOf, type Stores } from '../stores.ts';
import { ATTEST, attesterContainer, NO_WAY_OUT_PORT, WALLS_OPEN } from './attester.ts';
import { NETWORK_PROBE, type Proof, type Question } from './probe.ts';

/** Program of the chart that takes every connection, at three ports that differ in who may come there, and three like them over UDP. */
export const CANARY = 'canary';
/** Which both policies let a probe reach: so the canary is there, and the probe has a network. */
const MET_PORT = 7001;
/** The Service that a probe may call and that admits nobody. */
const NO_WAY_IN_PORT = 7003;
const UDP = { met: 7011, noWayOut: 7012, noWayIn: 7013 };

const ASKED = new Set([CANARY, 'postgres']);

/** Addresses of the DNS servers that a pod of the cluster has; a port is written with those alone that do not listen at 53. */
export const dnsServersOf = (servers: readonly string[]): readonly string[] =>
  servers.filter((server) => isIP(server) !== 0 && !/^127\.|^::1$/.test(server));

/** Whether it is a Service that probes are asked about. */
export const isAsked = (service: KubeObject | undefined): boolean =>
  ASKED.has(service?.metadata.labels?.[LABEL.component] ?? '');

/** Whether policies hold on a node; undefined while there is nothing that they could be tried with. */
export function networkQuestion(
  names: SpaceNames,
  { services }: { readonly services: Stores['services'] },
): Question | undefined {
  const at = (component: string) => addressesOf(names, services, component).join(',');
  const [canary, postgres] = [at(CANARY), at('postgres')];
  if (canary === '' || postgres === '') return undefined;
  const targets = [
    // The first server alone: a further one that is away is no word on the walls, and must stop nobody on the others.
    `+PostgreSQL=${postgres}:${databasePort(names)}`,
    `+the canary=${canary}:${MET_PORT}`,
    `-the canary, where no policy lets it go=${canary}:${NO_WAY_OUT_PORT}`,
    `-the canary, where no policy lets it in=${canary}:${NO_WAY_IN_PORT}`,
    `+the canary=${canary}:${UDP.met}/udp`,
    `-the canary, where no policy lets it go=${canary}:${UDP.noWayOut}/udp`,
    `-the canary, where no policy lets it in=${canary}:${UDP.noWayIn}/udp`,
    ...dnsTargets(names),
    // The kubelet tells each container these two, and fills them in.
    '-the API server=$(KUBERNETES_SERVICE_HOST):$(KUBERNETES_SERVICE_PORT)',
    '-its node=$(NODE):10250',
    '-the metadata address=169.254.169.254,fd00:ec2::254:80',
  ];
  const container = attesterContainer(names.attesterImage);
  return {
    names,
    component: NETWORK_PROBE,
    about: (node) => [networkOf(node)],
    container: {
      ...container,
      command: [...ATTEST, 'prove', ...targets],
      env: [{ name: 'NODE', valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.hostIPs' } } }],
    },
  };
}

/** Whoever may ask them can tell them anything, name by name. */
function dnsTargets({ dnsServers = [] }: SpaceNames): readonly string[] {
  if (dnsServers.length === 0) return [];
  const target = `-the DNS server=${dnsServers.join(',')}:53`;
  return [target, `${target}/udp`];
}

/** Network plugins say here when they came up, and so also when they came up in another version. */
const networkOf = ({ status }: Node): string =>
  status?.conditions?.find(({ type }) => type === 'NetworkUnavailable')?.lastTransitionTime ?? '';

export interface Walls {
  readonly node: string;
  readonly proof: Proof;
  /** Whether a pod could be brought there now. */
  readonly open: boolean;
}

/**
 * Whether network policies are enforced. One node on which something was reached is enough to say no, as the scheduler
 * chooses nodes; one that was not asked yet is no reason to stop, as each pod asks for itself before tenant code starts.
 */
export function decideNetwork(walls: readonly Walls[]): Finding {
  const open = walls.filter((wall) => wall.open).toSorted((a, b) => (a.node < b.node ? -1 : 1));
  const failed = open.find(({ proof }) => proof.exitCode === WALLS_OPEN);
  if (failed) {
    return no(
      'EnforcementFailed',
      `On node "${failed.node}" a pod that may reach PostgreSQL alone ${failed.proof.found}. The network plugin does not enforce NetworkPolicies there, so nothing new is scheduled: mend it, or cordon the node. It is tried again every half minute.`,
    );
  }
  if (walls.some(({ proof }) => proof.verdict === 'passed'))
    return yes('Ready', 'Everything is denied but what an Assistant needs, and a probe has found it so.');
  const [first] = open;
  const why = first
    ? `Node "${first.node}": ${first.proof.found ?? 'a probe is on its way'}.`
    : 'No node takes a probe, or the services namespace has no Service labelled platform.space/component=canary.';
  return unknown(
    'EnforcementUnproven',
    `It is not proved yet that the network plugin enforces NetworkPolicies. ${why} See the pods labelled platform.space/component=${NETWORK_PROBE}.`,
  );
}
