import type { Identity } from '../context.ts';
import { EGRESS_COMPONENT } from '../egress/replicas.ts';
import type { Capsule } from '../kinds.ts';
import {
  ANNOTATION,
  capsuleNamespace,
  databasePort,
  LABEL,
  OBJECT_STORE_PORT,
  type SpaceNames,
  secretsRoleName,
} from '../names.ts';
import type { Desired } from '../runtime/apply.ts';

/** The limits of a container that declares none. */
const DEFAULT_LIMITS = { cpu: '1', memory: '512Mi' };
/** The highest limits of a container in a Capsule whose quota says nothing. */
const MOST = { cpu: '8', memory: '16Gi' };
/** The limits of a pod that declares none, in thousandths of a core and MiB. */
const DEFAULT_POD = { milliCpu: 1_000, mebibytes: 512 };
const DEFAULT_REQUESTS = { cpu: '25m', memory: '64Mi' };
const DEFAULT_PODS = 100;
const EGRESS_PORT = 3128;

/** Labels of all objects that belong to a Capsule. */
export function capsuleLabels(names: SpaceNames, capsule: string): Record<string, string> {
  return { [LABEL.space]: names.space, [LABEL.capsule]: capsule };
}

/**
 * The namespace, with Pod Security `restricted` in all three modes, so that the author of a pod sees the refusal, too.
 */
export function namespaceObject(names: SpaceNames, capsule: Capsule): Desired {
  const { name, uid = '' } = capsule.metadata;
  const security: Record<string, string> = {};
  for (const mode of ['enforce', 'audit', 'warn']) {
    security[`pod-security.kubernetes.io/${mode}`] = 'restricted';
    security[`pod-security.kubernetes.io/${mode}-version`] = 'latest';
  }
  return {
    metadata: {
      name: capsuleNamespace(names.space, name),
      labels: { ...capsuleLabels(names, name), ...security },
      annotations: { [ANNOTATION.owner]: uid },
    },
  };
}

export function quotaObject(names: SpaceNames, capsule: Capsule): Desired {
  const { cpu, memory, pods = DEFAULT_PODS } = capsule.spec.quota ?? {};
  return {
    metadata: inNamespace(names, capsule, 'space-quota'),
    spec: {
      hard: {
        pods: String(pods),
        // Inside the cluster, nothing of a tenant is reachable other than by its Service.
        'services.nodeports': '0',
        'services.loadbalancers': '0',
        // Without a quota, the sum of what all pods have by default is the limit, so that every Capsule has one.
        'limits.cpu': String(cpu ?? `${pods * DEFAULT_POD.milliCpu}m`),
        'limits.memory': String(memory ?? `${pods * DEFAULT_POD.mebibytes}Mi`),
      },
    },
  };
}

export function limitRangeObject(names: SpaceNames, capsule: Capsule): Desired {
  const { cpu, memory } = capsule.spec.quota ?? {};
  // A quota also limits a single container. A maximum below the default would be invalid in a LimitRange.
  const max = {
    ...(cpu === undefined ? { cpu: MOST.cpu } : {}),
    ...(memory === undefined ? { memory: MOST.memory } : {}),
  };
  const limits = { type: 'Container', default: DEFAULT_LIMITS, defaultRequest: DEFAULT_REQUESTS };
  return {
    metadata: inNamespace(names, capsule, 'space-limits'),
    spec: { limits: [Object.keys(max).length === 0 ? limits : { ...limits, max }] },
  };
}

/** Denies all traffic of every pod; other policies add what is allowed. */
export function defaultDenyObject(names: SpaceNames, capsule: Capsule): Desired {
  return {
    metadata: inNamespace(names, capsule, 'space-default-deny'),
    spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [], egress: [] },
  };
}

/**
 * Clients of the Space may reach Assistants, which may reach PostgreSQL, object store and egress gateway of the Space.
 */
export function assistantsPolicyObject(names: SpaceNames, capsule: Capsule): Desired {
  const namespace = (name: string) => ({ matchLabels: { 'kubernetes.io/metadata.name': name } });
  return {
    metadata: inNamespace(names, capsule, 'space-assistants'),
    spec: {
      podSelector: { matchExpressions: [{ key: LABEL.assistant, operator: 'Exists' }] },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [
        {
          from: [
            {
              namespaceSelector: namespace(names.namespace),
              podSelector: { matchLabels: { [LABEL.client]: 'true' } },
            },
          ],
        },
      ],
      egress: [
        ...(names.databaseServer?.egress ?? [
          {
            to: [
              {
                namespaceSelector: namespace(names.servicesNamespace),
                podSelector: { matchLabels: { [LABEL.component]: 'postgres' } },
              },
            ],
            ports: [{ protocol: 'TCP', port: databasePort(names) }],
          },
        ]),
        ...(names.furtherDatabaseServers ?? []).flatMap(({ egress }) => egress),
        {
          to: [
            {
              namespaceSelector: namespace(names.servicesNamespace),
              podSelector: { matchLabels: { [LABEL.component]: 'objectstore-broker' } },
            },
          ],
          // Only the data listener; the control listener has another port.
          ports: [{ protocol: 'TCP', port: OBJECT_STORE_PORT }],
        },
        {
          to: [
            {
              namespaceSelector: namespace(names.servicesNamespace),
              podSelector: { matchLabels: { [LABEL.component]: EGRESS_COMPONENT } },
            },
          ],
          ports: [{ protocol: 'TCP', port: EGRESS_PORT }],
        },
      ],
    },
  };
}

/** Permits the operator to use the Secrets of this namespace. */
export function secretsBindingObject(names: SpaceNames, capsule: Capsule, identity: Identity): Desired {
  const apiGroup = 'rbac.authorization.k8s.io';
  return {
    metadata: inNamespace(names, capsule, 'space-operator'),
    roleRef: { apiGroup, kind: 'ClusterRole', name: secretsRoleName(names.space) },
    subjects: [{ ...identity, ...(identity.kind === 'User' ? { apiGroup } : {}) }],
  };
}

function inNamespace(names: SpaceNames, capsule: Capsule, name: string) {
  return {
    name,
    namespace: capsuleNamespace(names.space, capsule.metadata.name),
    labels: capsuleLabels(names, capsule.metadata.name),
  };
}
