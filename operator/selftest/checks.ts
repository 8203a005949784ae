/** What can be known of a Space from inside its cluster, by an account that may only look. */
import { admissionLook } from '../admission.ts';
import { CAPSULE, type Capsule, DEPLOYMENT, POD, type Pod, SERVICE, type Service } from '../kinds.ts';
import { LABEL } from '../names.ts';
import type { ApiClient } from '../runtime/client.ts';
import { type KubeObject, pathOf, type Resource } from '../runtime/kube-object.ts';
import { together } from '../runtime/together.ts';
import { NETWORK_PROBE, PROBE } from '../sandbox/probe.ts';
import type { SelfTestOptions } from './options.ts';

export interface Check {
  readonly name: string;
  /** What is wrong; empty if the check passed. */
  readonly faults: readonly string[];
  /** What was examined. */
  readonly found: string;
}

export interface Asking {
  readonly client: ApiClient;
  readonly options: SelfTestOptions;
  /** Whether this pod can connect to an address that should be closed to it. */
  readonly reaches: (address: string, port: number) => Promise<boolean>;
}

interface Workload extends KubeObject {
  readonly spec: { readonly replicas?: number };
  readonly status?: {
    readonly observedGeneration?: number;
    readonly updatedReplicas?: number;
    readonly readyReplicas?: number;
  };
}

const STATEFUL_SET: Resource = { ...DEPLOYMENT, plural: 'statefulsets', kind: 'StatefulSet' };

export const checksOf = (asking: Asking, signal: AbortSignal): Promise<readonly Check[]> =>
  together([admission, parts, enforcement, capsules, walls].map((check) => check(asking, signal)));

async function admission({ client, options }: Asking, signal: AbortSignal): Promise<Check> {
  const gap = await admissionLook({ client, names: options }, performance.now.bind(performance))(signal);
  return {
    name: 'admission policies',
    faults: gap ? [gap.message] : [],
    found: 'each is in force, as in the release',
  };
}

/** Brokers and gateway are Ready only while they refuse what they must refuse, so their readiness answers this. */
async function parts(asking: Asking, signal: AbortSignal): Promise<Check> {
  const { systemNamespace, servicesNamespace } = asking.options;
  const lists = await together(
    [systemNamespace, servicesNamespace].flatMap((namespace) =>
      [DEPLOYMENT, STATEFUL_SET].map(async (resource) =>
        (await list<Workload>(asking, resource, namespace, signal)).map((object) => ({
          ...object,
          namespace,
        })),
      ),
    ),
  );
  const workloads = lists.flat();
  const named = new Set(workloads.map(({ metadata }) => metadata.labels?.[LABEL.component]));
  const missing = asking.options.parts.filter((part) => !named.has(part));
  return {
    name: 'parts',
    faults: [
      ...missing.map((part) => `${part}: it does not exist`),
      ...workloads.flatMap(({ metadata, spec, status = {}, namespace }) => {
        const { replicas = 1 } = spec;
        const { observedGeneration = 0, updatedReplicas = 0, readyReplicas = 0 } = status;
        const isCurrent = observedGeneration >= (metadata.generation ?? 0) && updatedReplicas >= replicas;
        if (isCurrent && readyReplicas >= replicas && replicas > 0) return [];
        const ready =
          replicas === 0 ? 'it is scaled to zero' : `${readyReplicas} of ${replicas} pods are ready`;
        return [
          `${namespace}/${metadata.name}: ${ready}${isCurrent ? '' : ', and not all have the newest version'}`,
        ];
      }),
    ],
    found: `${workloads.length} workloads have all their pods, and all of these are ready`,
  };
}

/** The results of the operator's probes, which stay as a record. */
async function enforcement(asking: Asking, signal: AbortSignal): Promise<Check> {
  const pods = await list<Pod>(asking, POD, asking.options.systemNamespace, signal);
  const of = (component: string) =>
    pods.filter(({ metadata }) => metadata.labels?.[LABEL.component] === component);
  const [sandbox, network] = [of(PROBE), of(NETWORK_PROBE)];
  const passed = (probes: readonly Pod[]) =>
    probes.filter(({ status }) => status?.phase === 'Succeeded').length;
  const unproven = (what: string, probes: readonly Pod[]) =>
    passed(probes) > 0 ? [] : [`${what} is not proved: none of ${probes.length} probes has passed`];
  return {
    name: 'enforcement',
    faults: [
      ...unproven('the sandbox', sandbox),
      ...unproven('that network policies are enforced', network),
      ...[...sandbox, ...network]
        .filter(({ status }) => status?.phase === 'Failed')
        .map((pod) => `probe ${pod.metadata.name}: ${foundBy(pod)}`),
    ],
    found: `${passed(sandbox)} probes of the sandbox and ${passed(network)} of the network have passed`,
  };
}

const foundBy = ({ status = {} }: Pod): string => {
  const end = status.containerStatuses?.find(({ state }) => state?.terminated)?.state?.terminated;
  return (end?.message ?? end?.reason ?? status.reason ?? 'it failed').trim().slice(0, 300);
};

async function capsules(asking: Asking, signal: AbortSignal): Promise<Check> {
  const all = await list<Capsule>(asking, CAPSULE, asking.options.releaseNamespace, signal);
  const standing = all.filter(({ metadata }) => metadata.deletionTimestamp === undefined);
  return {
    name: 'Capsules',
    faults: standing.flatMap(({ metadata, status }) => {
      const ready = status?.conditions?.find(({ type }) => type === 'Ready');
      if (ready?.status === 'True') return [];
      return [
        `${metadata.name}: ${ready ? `${ready.reason}: ${ready.message}` : 'the operator has reported nothing'}`,
      ];
    }),
    found: standing.length === 0 ? 'there is none yet' : `${standing.length} are Ready`,
  };
}

/** This pod's policy permits only the API server, so every other connection must fail. */
async function walls(asking: Asking, signal: AbortSignal): Promise<Check> {
  const services = await list<Service>(asking, SERVICE, asking.options.servicesNamespace, signal);
  const ofServices = services.flatMap(({ metadata, spec = {} }) =>
    (spec.clusterIPs ?? [])
      .filter((address) => address !== 'None')
      .flatMap((address) =>
        (spec.ports ?? []).map(({ port }) => ({ name: `Service ${metadata.name}`, address, port })),
      ),
  );
  const targets = [...ofServices, ...asking.options.closed];
  const met = await together(
    targets.map(async (target) => ((await asking.reaches(target.address, target.port)) ? [target] : [])),
  );
  return {
    name: 'walls',
    faults: met.flat().map(({ name, address, port }) => `${name} (${address} port ${port}) was reached`),
    found: `none of the ${targets.length} addresses that no policy allows could be reached from this pod`,
  };
}

async function list<T extends KubeObject>(
  { client, options }: Asking,
  resource: Resource,
  namespace: string,
  signal: AbortSignal,
): Promise<readonly T[]> {
  const ours = resource === CAPSULE ? {} : { labelSelector: `${LABEL.space}=${options.space}` };
  const path = pathOf(resource, namespace);
  return (await client.call<{ items: readonly T[] }>({ method: 'GET', path, query: ours, signal })).items;
}
