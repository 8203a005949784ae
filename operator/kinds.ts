import type {
  V1ConfigMap,
  V1DeploymentSpec,
  V1DeploymentStatus,
  V1LimitRangeSpec,
  V1NetworkPolicySpec,
  V1NodeSpec,
  V1PodSpec,
  V1ResourceQuotaSpec,
  V1ServiceSpec,
} from '@kubernetes/client-node';
import type { AssistantSpec, AssistantStatus, CapsuleSpec, CapsuleStatus } from '@space/manifests';
import { GROUP } from './names.ts';
import type { KubeObject, Resource } from './runtime/kube-object.ts';

const core = (plural: string, kind: string, namespaced = true): Resource => ({
  group: '',
  version: 'v1',
  plural,
  kind,
  namespaced,
});
const at = (group: string, plural: string, kind: string, namespaced = true): Resource => ({
  group,
  version: 'v1',
  plural,
  kind,
  namespaced,
});

export const CAPSULE = at(GROUP, 'capsules', 'Capsule');
export const ASSISTANT = at(GROUP, 'assistants', 'Assistant');
export const NAMESPACE = core('namespaces', 'Namespace', false);
export const NODE = core('nodes', 'Node', false);
export const POD = core('pods', 'Pod');
export const SERVICE = core('services', 'Service');
export const SECRET = core('secrets', 'Secret');
export const CONFIG_MAP = core('configmaps', 'ConfigMap');
export const RESOURCE_QUOTA = core('resourcequotas', 'ResourceQuota');
export const LIMIT_RANGE = core('limitranges', 'LimitRange');
export const DEPLOYMENT = at('apps', 'deployments', 'Deployment');
export const NETWORK_POLICY = at('networking.k8s.io', 'networkpolicies', 'NetworkPolicy');
export const ROLE = at('rbac.authorization.k8s.io', 'roles', 'Role');
export const ROLE_BINDING = at('rbac.authorization.k8s.io', 'rolebindings', 'RoleBinding');
export const RUNTIME_CLASS = at('node.k8s.io', 'runtimeclasses', 'RuntimeClass', false);

export interface Capsule extends KubeObject {
  readonly spec: CapsuleSpec;
  readonly status?: CapsuleStatus;
}

export interface Assistant extends KubeObject {
  readonly spec: AssistantSpec;
  readonly status?: AssistantStatus;
  /** The Capsule that it was stored with, if that is another than the one it was accepted in, which `spec` then has. */
  readonly movedTo?: string;
}

export interface Namespace extends KubeObject {
  readonly status?: { readonly phase?: string };
}

export interface Node extends KubeObject {
  readonly spec?: Pick<V1NodeSpec, 'unschedulable' | 'taints'>;
  readonly status?: {
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly lastTransitionTime?: string;
    }[];
    readonly runtimeHandlers?: readonly { readonly name?: string }[];
    readonly nodeInfo?: { readonly bootID?: string; readonly containerRuntimeVersion?: string };
  };
}

export interface RuntimeClass extends KubeObject {
  readonly handler: string;
  readonly scheduling?: {
    readonly nodeSelector?: Readonly<Record<string, string>>;
    readonly tolerations?: readonly Toleration[];
  };
}

export interface Toleration {
  readonly key?: string;
  readonly operator?: string;
  readonly value?: string;
  readonly effect?: string;
}

export interface Deployment extends KubeObject {
  readonly spec?: V1DeploymentSpec;
  readonly status?: V1DeploymentStatus;
}

export interface Pod extends KubeObject {
  readonly spec?: Partial<Pick<V1PodSpec, 'nodeName' | 'runtimeClassName' | 'initContainers' | 'containers'>>;
  readonly status?: {
    readonly phase?: string;
    readonly reason?: string;
    readonly message?: string;
    readonly podIP?: string;
    /** One address of each family; the first one is `podIP`. */
    readonly podIPs?: readonly { readonly ip: string }[];
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly reason?: string;
      readonly message?: string;
    }[];
    readonly initContainerStatuses?: readonly ContainerStatus[];
    readonly containerStatuses?: readonly ContainerStatus[];
  };
}

export interface ContainerStatus {
  readonly name: string;
  readonly ready?: boolean;
  /** Whether its startup probe has passed. */
  readonly started?: boolean;
  readonly containerID?: string;
  readonly restartCount?: number;
  readonly state?: {
    readonly waiting?: { readonly reason?: string; readonly message?: string };
    readonly running?: object;
    readonly terminated?: Terminated;
  };
  readonly lastState?: { readonly terminated?: Terminated };
}

export interface Terminated {
  readonly reason?: string;
  readonly exitCode?: number;
  readonly message?: string;
}

export interface Service extends KubeObject {
  readonly spec?: Pick<V1ServiceSpec, 'clusterIP' | 'clusterIPs' | 'ports' | 'selector'>;
}

export interface ConfigMap extends KubeObject {
  readonly data?: V1ConfigMap['data'];
}

export interface SecretObject extends KubeObject {
  readonly type?: string;
  /** Values are in base64. */
  readonly data?: Readonly<Record<string, string>>;
}

export interface ResourceQuota extends KubeObject {
  readonly spec?: V1ResourceQuotaSpec;
}

export interface LimitRange extends KubeObject {
  readonly spec?: V1LimitRangeSpec;
}

export interface NetworkPolicy extends KubeObject {
  readonly spec?: V1NetworkPolicySpec;
}

export interface Role extends KubeObject {
  readonly rules?: readonly { readonly resourceNames?: readonly string[] }[] | null;
}

export interface RoleBinding extends KubeObject {
  readonly roleRef?: { readonly kind: string; readonly name: string };
}
