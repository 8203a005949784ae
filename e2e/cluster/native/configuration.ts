import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { podNetwork } from '../calico.ts';
import { writeKubeconfig } from './kubeconfig.ts';
import { type Layout, NETWORK } from './layout.ts';

interface Configured {
  /** The name of the cluster. */
  readonly name: string;
  /** The port on this machine. */
  readonly apiPort: number;
  readonly pauseImage: string;
}

/** Writes every component's file at each start of a node, since they follow from the checkout alone. */
export async function writeConfiguration(
  layout: Layout,
  { name, apiPort, pauseImage }: Configured,
): Promise<void> {
  const { etc, pki } = layout;
  await writeNodeConfiguration(layout, { name, pauseImage });
  await Promise.all([
    writeFile(join(etc, 'audit.json'), JSON.stringify(AUDIT)),
    ...['controller-manager', 'scheduler'].map((user) => writeInside(layout, name, user)),
    writeKubeconfig(layout.kubeconfig, {
      pki,
      user: 'admin',
      cluster: name,
      server: `https://127.0.0.1:${apiPort}`,
    }),
  ]);
}

const writeInside = ({ etc, pki, index }: Layout, cluster: string, user: string): Promise<void> =>
  writeKubeconfig(join(etc, `${user}.kubeconfig`), {
    pki,
    user,
    cluster,
    server: `https://${index === 1 ? '127.0.0.1' : NETWORK.node}:${NETWORK.apiPort}`,
  });

/** Writes the files of the programs that every node has. */
export async function writeNodeConfiguration(
  layout: Layout,
  { name, pauseImage }: Omit<Configured, 'apiPort'>,
): Promise<void> {
  const { etc } = layout;
  await mkdir(join(etc, 'cni'), { recursive: true });
  const file = (path: string, content: string) => writeFile(join(etc, path), content);
  const network = {
    node: layout.node,
    kubeconfig: `${etc}/calico.kubeconfig`,
    addresses: `${layout.state}/addresses`,
  };
  await Promise.all([
    file('containerd.toml', containerd(layout, pauseImage)),
    file('runsc.toml', runsc(layout)),
    file('cni/10-calico.conflist', JSON.stringify(podNetwork(network))),
    file('kube-proxy.json', JSON.stringify(kubeProxy(layout))),
    file('kubelet.json', JSON.stringify(kubelet(layout))),
    file('resolv.conf', ''),
    ...['kube-proxy', 'kubelet', 'calico'].map((user) => writeInside(layout, name, user)),
  ]);
}

/** The audit log that suites read: the requests of programs, and all changes. */
export const AUDIT = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [
    // All requests of the Space's programs are logged, since the suites compare them with the programs' roles.
    { level: 'None', userGroups: ['system:serviceaccounts:kube-system'], verbs: ['get', 'list', 'watch'] },
    {
      level: 'None',
      userGroups: ['system:serviceaccounts:kube-system'],
      resources: [
        { group: 'coordination.k8s.io' },
        { group: '', resources: ['events'] },
        { group: 'events.k8s.io' },
      ],
    },
    { level: 'Metadata', userGroups: ['system:serviceaccounts'] },
    { level: 'None', verbs: ['get', 'list', 'watch'] },
    {
      level: 'None',
      resources: [
        { group: 'coordination.k8s.io' },
        { group: '', resources: ['events'] },
        { group: 'events.k8s.io' },
      ],
    },
    { level: 'Metadata' },
  ],
};

/** Everything from this line to the end of the file is gVisor's. */
export const HANDLER = '[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc]';

function containerd({ state, bin, etc, containerdSocket }: Layout, pauseImage: string): string {
  return `version = 3
root = "${state}/containerd"
state = "/run/containerd"
disabled_plugins = ["io.containerd.internal.v1.tracing", "io.containerd.tracing.processor.v1.otlp", "io.containerd.nri.v1.nri"]
[grpc]
  address = "${containerdSocket}"
[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
[plugins."io.containerd.cri.v1.images".pinned_images]
  sandbox = "${pauseImage}"
[plugins."io.containerd.cri.v1.runtime"]
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  # Where root has no CAP_SYS_RESOURCE no process may get an oom_score_adj below its parent's: clamp instead of failing.
  restrict_oom_score_adj = true
[plugins."io.containerd.cri.v1.runtime".cni]
  bin_dirs = ["${bin}/cni"]
  conf_dir = "${etc}/cni"
[plugins."io.containerd.cri.v1.runtime".containerd]
  default_runtime_name = "runc"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
  runtime_type = "io.containerd.runc.v2"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
  BinaryName = "${bin}/runc"
  SystemdCgroup = false
${HANDLER}
  runtime_type = "io.containerd.runsc.v1"
[plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runsc.options]
  TypeUrl = "io.containerd.runsc.v1.options"
  ConfigPath = "${etc}/runsc.toml"
`;
}

const runsc = ({ bin, log }: Layout) => `binary_name = "${bin}/runsc"
log_path = "${log}/runsc.log"
[runsc_config]
  platform = "systrap"
`;

const kubeProxy = ({ etc, node }: Layout) => ({
  apiVersion: 'kubeproxy.config.k8s.io/v1alpha1',
  kind: 'KubeProxyConfiguration',
  mode: 'iptables',
  clusterCIDR: NETWORK.pods,
  hostnameOverride: node,
  clientConnection: { kubeconfig: `${etc}/kube-proxy.kubeconfig` },
  healthzBindAddress: '127.0.0.1:10256',
  metricsBindAddress: '127.0.0.1:10249',
  // These sysctls belong to the machine's first network namespace, so they must not be changed.
  conntrack: { maxPerCore: 0, min: 0, tcpEstablishedTimeout: '0s', tcpCloseWaitTimeout: '0s' },
});

const kubelet = ({ etc, pki, state, cgroup, containerdSocket }: Layout) => ({
  apiVersion: 'kubelet.config.k8s.io/v1beta1',
  kind: 'KubeletConfiguration',
  // From 1.35 on the kubelet refuses to start on cgroup v1 by default.
  failCgroupV1: false,
  cgroupDriver: 'cgroupfs',
  cgroupRoot: cgroup,
  authentication: {
    anonymous: { enabled: false },
    webhook: { enabled: true },
    x509: { clientCAFile: `${pki}/ca.crt` },
  },
  authorization: { mode: 'Webhook' },
  tlsCertFile: `${pki}/kubelet.crt`,
  tlsPrivateKeyFile: `${pki}/kubelet.key`,
  clusterDNS: [NETWORK.dns],
  clusterDomain: 'cluster.local',
  containerRuntimeEndpoint: `unix://${containerdSocket}`,
  podLogsDir: '/var/log/pods',
  resolvConf: `${etc}/resolv.conf`,
  volumePluginDir: `${state}/kubelet/volumeplugins`,
  healthzBindAddress: '127.0.0.1',
  healthzPort: 10248,
  // Images cannot be pulled again, so they are never collected.
  imageGCHighThresholdPercent: 100,
  imageMaximumGCAge: '0s',
  evictionHard: { 'memory.available': '200Mi', 'nodefs.available': '1Gi', 'imagefs.available': '1Gi' },
  nodeStatusUpdateFrequency: '5s',
  maxPods: 110,
});
