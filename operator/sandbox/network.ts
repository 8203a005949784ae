import { isIP } from 'node:net';
import { type Finding, no, unknown, yes } from '../conditions.ts';
import type { Node } from '../kinds.ts';
import { databasePort, LABEL, type SpaceNames } from '../names.ts';
import type { KubeObject } from '../runtime/kube-object.ts';
import { addressesOf, type Stores } from '../stores.ts';
import { ATTEST, attesterContainer, NO_WAY_OUT_PORT, WALLS_OPEN } from './attester.ts';
import { NETWORK_PROBE, type Proof, type Question } from './probe.ts';

/**
 * The chart's program that accepts every connection: at three TCP ports, which differ in who may connect, and at three
 * UDP ports.
 */
export const CANARY = 'canary';
/**
 * The port that both policies open to a probe, as a control: an answer shows that the canary runs and that the probe
 * has a network.
 */
const MET_PORT = 7001;
/** The port that the probe's policy opens, and that the canary's policy opens to nobody. */
const NO_WAY_IN_PORT = 7003;
const UDP = { met: 7011, noWayOut: 7012, noWayIn: 7013 };

const ASKED = new Set([CANARY, 'postgres']);

/**
 * Addresses of the DNS servers of a pod in this cluster, with a port only if it is not 53. Addresses of the pod itself
 * are left out.
 */
export const dnsServersOf = (servers: readonly string[]): readonly string[] =>
  servers.filter((server) => isIP(server) !== 0 && !/^127\.|^::1$/.test(server));

/** Whether the Service is one that probes connect to. */
export const isAsked = (service: KubeObject | undefined): boolean =>
  ASKED.has(service?.metadata.labels?.[LABEL.component] ?? '');

/** The question whether network policies are enforced on a node; undefined without the Services that it needs. */
export function networkQuestion(
  names: SpaceNames,
  { services }: { readonly services: Stores['services'] },
): Question | undefined {
  const at = (component: string) => addressesOf(names, services, component).join(',');
  const [canary, postgres] = [at(CANARY), at('postgres')];
  if (canary === '' || postgres === '') return undefined;
  const targets = [
    // Only the first server: if a further one is unavailable, that says nothing about network policies, and must not
    // stop Assistants on the others.
    `+PostgreSQL=${postgres}:${databasePort(names)}`,
    `+the canary=${canary}:${MET_PORT}`,
    `-the canary, where no policy lets it go=${canary}:${NO_WAY_OUT_PORT}`,
    `-the canary, where no policy lets it in=${canary}:${NO_WAY_IN_PORT}`,
    `+the canary=${canary}:${UDP.met}/udp`,
    `-the canary, where no policy lets it go=${canary}:${UDP.noWayOut}/udp`,
    `-the canary, where no policy lets it in=${canary}:${UDP.noWayIn}/udp`,
    ...dnsTargets(names),
    // The kubelet sets these two variables in each container.
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

/** DNS servers must be unreachable, since a query's name can carry any data out of the cluster. */
function dnsTargets({ dnsServers = [] }: SpaceNames): readonly string[] {
  if (dnsServers.length === 0) return [];
  const target = `-the DNS server=${dnsServers.join(',')}:53`;
  return [target, `${target}/udp`];
}

/** Network plugins set this condition when they start, so it changes with a new version of the plugin. */
const networkOf = ({ status }: Node): string =>
  status?.conditions?.find(({ type }) => type === 'NetworkUnavailable')?.lastTransitionTime ?? '';

export interface Walls {
  readonly node: string;
  readonly proof: Proof;
  /** Whether a pod could be scheduled there now. */
  readonly open: boolean;
}

/**
 * Whether network policies are enforced. One node on which a denied connection succeeded is enough to say no, since the
 * scheduler may choose it. A node that was not probed yet is no reason to stop, since each pod's attester checks before
 * tenant code starts.
 */
export function decideNetwork(walls: readonly Walls[]): Finding {
  const open = walls.filter((wall) => wall.open).toSorted((a, b) => (a.node < b.node ? -1 : 1));
  const failed = open.find(({ proof }) => proof.exitCode === WALLS_OPEN);
  if (failed) {
    return no(
      'EnforcementFailed',
      `On node "${failed.node}" a pod that may reach only PostgreSQL ${failed.proof.found}. The network plugin does not enforce NetworkPolicies there, so nothing new is scheduled: repair it, or cordon the node. It is retried every half minute.`,
    );
  }
  if (walls.some(({ proof }) => proof.verdict === 'passed'))
    return yes(
      'Ready',
      'Network policies deny everything except what an Assistant needs, and a probe has confirmed it.',
    );
  const [first] = open;
  const why = first
    ? `Node "${first.node}": ${first.proof.found ?? 'a probe has not ended yet'}.`
    : 'A probe can be scheduled on no node, or the services namespace has no Service labelled platform.space/component=canary.';
  return unknown(
    'EnforcementUnproven',
    `It is not proved yet that the network plugin enforces NetworkPolicies. ${why} See the pods labelled platform.space/component=${NETWORK_PROBE}.`,
  );
}
