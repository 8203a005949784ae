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

/** What a container gets that says nothing of resources. */
const DEFAULT_LIMITS = { cpu: '1', memory: '512Mi' };
/** The most of one container in a Capsule whose quota does not say it. */
const MOST = { cpu: '8', memory: '16Gi' };
/** What a pod without resources of its own is counted with, container and attester, in thousandths of a core and MiB. */
const DEFAULT_POD = { milliCpu: 1_010, mebibytes: 528 };
const DEFAULT_REQUESTS = { cpu: '25m', memory: '64Mi' };
const DEFAULT_PODS = 100;
const EGRESS_PORT = 3128;

/** Labels of everything that belongs to a Capsule. */
export function capsuleLabels(names: SpaceNames, capsule: string): Record<string, string> {
  return { [LABEL.space]: names.space, [LABEL.capsule]: capsule };
}

/** Pod Security `restricted` in all three modes, so that a refusal is also seen by who writes the pod. */
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
        // Nothing of a tenant's is reachable around its Service inside the cluster.
        'services.nodeports': '0',
        'services.loadbalancers': '0',
        // What is not said is as much as all its pods have by default, so that no Capsule is without a bound.
        'limits.cpu': String(cpu ?? `${pods * DEFAULT_POD.milliCpu}m`),
        'limits.memory': String(memory ?? `${pods * DEFAULT_POD.mebibytes}Mi`),
      },
    },
  };
}

export function limitRangeObject(names: SpaceNames, capsule: Capsule): Desired {
  const { cpu, memory } = capsule.spec.quota ?? {};
  // Where the quota says it, it bounds a container, too; a maximum below the default would be no LimitRange.
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

/** Nothing in, nothing out, for every pod; what is allowed is in the policies beside it. */
export function defaultDenyObject(names: SpaceNames, capsule: Capsule): Desired {
  return {
    metadata: inNamespace(names, capsule, 'space-default-deny'),
    spec: { podSelector: {}, policyTypes: ['Ingress', 'Egress'], ingress: [], egress: [] },
  };
}

/** Assistants are reached by the Space's clients and reach the Space's PostgreSQL, object store and egress gateway. */
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
          // Objects alone: the control listener is on another port.
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

/** The operator's own way to this namespace's Secrets, and to no other's. */
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
