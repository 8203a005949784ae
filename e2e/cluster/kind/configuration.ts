import { fileURLToPath } from 'node:url';
import { stringify } from 'yaml';

/** The default node image: that of kind 0.33 for the same minor version of Kubernetes, by digest. */
export const NODE_IMAGE =
  'kindest/node:v1.36.4@sha256:099e049362a1526b2db71494e1947aae99bd16290d7c895f2b7ea312e3cbfaed';

export const PODS = '10.244.0.0/16';

/** Paths in the node. */
export const NODE = {
  programs: '/usr/local/bin',
  runscConfiguration: '/etc/containerd/runsc.toml',
  calicoKubeconfig: '/etc/kubernetes/calico.kubeconfig',
  plugins: '/opt/cni/bin',
  /** In /run, which is empty when a node starts again, so that no pod starts before Felix is ready again. */
  networks: '/run/cni/net.d',
  addresses: '/run/cni/addresses',
  audit: '/var/log/kubernetes',
  kubeletUnit: '/etc/systemd/system/kubelet.service.d/20-space.conf',
} as const;

/** kind's kubelet uses systemd's cgroups, so runsc must put its own there, too. */
export const KIND_RUNSC = '[runsc_config]\n  platform = "systrap"\n  systemd-cgroup = "true"\n';

interface Configured {
  readonly name: string;
  readonly image: string;
  /** The audit policy of the API server, on this machine. */
  readonly audit: string;
  /** Loopback port of the API server; by default kind takes any free one. */
  readonly apiPort?: number | undefined;
}

/**
 * The configuration that kind reads: a cluster whose one node has gVisor as the runtime handler `runsc` and waits for
 * Calico.
 */
export function kindConfiguration({ name, image, audit, apiPort }: Configured): string {
  return stringify({
    kind: 'Cluster',
    apiVersion: 'kind.x-k8s.io/v1alpha4',
    name,
    networking: {
      disableDefaultCNI: true, // kindnet lets a new pod out for its first milliseconds
      podSubnet: PODS,
      ...(apiPort !== undefined && { apiServerPort: apiPort }),
    },
    nodes: [
      {
        role: 'control-plane',
        image,
        extraMounts: [
          { hostPath: audit, containerPath: AUDIT_POLICY, readOnly: true },
          { hostPath: KUBELET_UNIT, containerPath: NODE.kubeletUnit, readOnly: true },
        ],
      },
    ],
    kubeadmConfigPatches: [PATIENCE, KUBELET, CONTROL_PLANE],
    // kind omits the patch whose version differs from that of its node's own configuration. With keys of another
    // version containerd would drop what kind sets for runc, including its cgroups.
    containerdConfigPatches: [
      runtime(2, 'plugins."io.containerd.grpc.v1.cri"'),
      runtime(3, 'plugins."io.containerd.cri.v1.runtime"'),
    ],
  });
}

const KUBELET_UNIT = fileURLToPath(new URL('./kubelet.conf', import.meta.url));

/** By default kubeadm gives up after a minute on some waits, which is too short for a busy machine. */
const PATIENCE = stringify({
  kind: 'InitConfiguration',
  timeouts: {
    controlPlaneComponentHealthCheck: '20m0s',
    etcdAPICall: '20m0s',
    kubeletHealthCheck: '20m0s',
    kubernetesAPICall: '20m0s',
  },
});

/** From 1.35 on the kubelet refuses to start on cgroup v1 by default. */
const KUBELET = stringify({
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  failCgroupV1: false,
});

const AUDIT_POLICY = '/etc/kubernetes/audit.json';

/** Without another replica to take over, losing a lease on a busy machine would only end the process. */
const ALONE = { extraArgs: { 'leader-elect': 'false' } };

/** kind converts arguments without a version into the form of its kubeadm's version. */
const CONTROL_PLANE = stringify({
  kind: 'ClusterConfiguration',
  controllerManager: ALONE,
  scheduler: ALONE,
  apiServer: {
    extraArgs: {
      'audit-policy-file': AUDIT_POLICY,
      'audit-log-path': `${NODE.audit}/audit.log`,
      'audit-log-maxsize': '150',
      'audit-log-maxbackup': '1',
    },
    extraVolumes: [
      { name: 'policy', hostPath: AUDIT_POLICY, mountPath: AUDIT_POLICY, readOnly: true, pathType: 'File' },
      { name: 'log', hostPath: NODE.audit, mountPath: NODE.audit, pathType: 'DirectoryOrCreate' },
    ],
  },
});

const runtime = (version: number, plugin: string) => `version = ${version}
[${plugin}.cni]
  conf_dir = "${NODE.networks}"
[${plugin}.containerd.runtimes.runsc]
  runtime_type = "io.containerd.runsc.v1"
[${plugin}.containerd.runtimes.runsc.options]
  TypeUrl = "io.containerd.runsc.v1.options"
  ConfigPath = "${NODE.runscConfiguration}"
`;
