import { felixEnvironment } from '../calico.ts';
import { type Layout, NETWORK } from './layout.ts';

/** One process of the node that the supervisor keeps running. */
export interface Component {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly env?: Readonly<Record<string, string>>;
  /** Starts only when the API server is ready: sooner it would only end and be started again. */
  readonly needsApi?: boolean;
}

export const components = (layout: Layout): readonly Component[] =>
  layout.index === 1 ? [...controlPlane(layout), ...nodePrograms(layout)] : nodePrograms(layout);

// biome-ignore lint/complexity/noExcessiveLinesPerFunction: a flat table of programs and their flags
function controlPlane({ node: name, etc, pki, log, state }: Layout): readonly Component[] {
  const kubeconfig = (user: string) => `${etc}/${user}.kubeconfig`;
  const delegated = (user: string) => [
    `--kubeconfig=${kubeconfig(user)}`,
    `--authentication-kubeconfig=${kubeconfig(user)}`,
    `--authorization-kubeconfig=${kubeconfig(user)}`,
    '--bind-address=127.0.0.1',
    '--leader-elect=false',
  ];
  return [
    {
      name: 'etcd',
      command: [
        'etcd',
        `--name=${name}`,
        `--data-dir=${state}/etcd`,
        '--unsafe-no-fsync', // a node that dies with its machine may lose its last writes: it is for development
        '--log-level=warn',
        '--quota-backend-bytes=2147483648',
        '--listen-client-urls=http://127.0.0.1:2379',
        '--advertise-client-urls=http://127.0.0.1:2379',
        '--listen-peer-urls=http://127.0.0.1:2380',
        '--initial-advertise-peer-urls=http://127.0.0.1:2380',
        `--initial-cluster=${name}=http://127.0.0.1:2380`,
      ],
    },
    {
      name: 'kube-apiserver',
      command: [
        'kube-apiserver',
        '--etcd-servers=http://127.0.0.1:2379',
        `--secure-port=${NETWORK.apiPort}`,
        '--bind-address=0.0.0.0',
        `--advertise-address=${NETWORK.node}`,
        `--service-cluster-ip-range=${NETWORK.services}`,
        '--authorization-mode=Node,RBAC',
        '--enable-admission-plugins=NodeRestriction',
        '--allow-privileged',
        `--client-ca-file=${pki}/ca.crt`,
        `--tls-cert-file=${pki}/apiserver.crt`,
        `--tls-private-key-file=${pki}/apiserver.key`,
        '--service-account-issuer=https://kubernetes.default.svc.cluster.local',
        `--service-account-key-file=${pki}/sa.pub`,
        `--service-account-signing-key-file=${pki}/sa.key`,
        `--kubelet-client-certificate=${pki}/apiserver-kubelet.crt`,
        `--kubelet-client-key=${pki}/apiserver-kubelet.key`,
        `--kubelet-certificate-authority=${pki}/ca.crt`,
        '--kubelet-preferred-address-types=InternalIP',
        `--requestheader-client-ca-file=${pki}/front-proxy-ca.crt`,
        '--requestheader-allowed-names=front-proxy',
        '--requestheader-extra-headers-prefix=X-Remote-Extra-',
        '--requestheader-group-headers=X-Remote-Group',
        '--requestheader-username-headers=X-Remote-User',
        `--proxy-client-cert-file=${pki}/front-proxy.crt`,
        `--proxy-client-key-file=${pki}/front-proxy.key`,
        `--audit-policy-file=${etc}/audit.json`,
        `--audit-log-path=${log}/audit.log`,
        '--audit-log-maxsize=150',
        '--audit-log-maxbackup=1',
        '--event-ttl=1h',
        '--profiling=false',
      ],
    },
    {
      name: 'kube-controller-manager',
      needsApi: true,
      command: [
        'kube-controller-manager',
        ...delegated('controller-manager'),
        '--use-service-account-credentials',
        `--service-account-private-key-file=${pki}/sa.key`,
        `--root-ca-file=${pki}/ca.crt`,
        `--cluster-signing-cert-file=${pki}/ca.crt`,
        `--cluster-signing-key-file=${pki}/ca.key`,
        `--service-cluster-ip-range=${NETWORK.services}`,
      ],
    },
    { name: 'kube-scheduler', needsApi: true, command: ['kube-scheduler', ...delegated('scheduler')] },
  ];
}

/** A further node's kubelet waits for the API server, too: without a way there it cannot do anything. */
const nodePrograms = (layout: Layout): readonly Component[] => [
  { name: 'containerd', command: ['containerd', `--config=${layout.etc}/containerd.toml`] },
  { name: 'kube-proxy', needsApi: true, command: ['kube-proxy', `--config=${layout.etc}/kube-proxy.json`] },
  { name: 'kubelet', needsApi: layout.index !== 1, command: kubelet(layout) },
  {
    name: 'calico-felix',
    needsApi: true,
    command: ['calico-felix'],
    env: felixEnvironment({
      node: layout.node,
      kubeconfig: `${layout.etc}/calico.kubeconfig`,
      device: NETWORK.bridge,
    }),
  },
];

function kubelet({ node, address, etc, run, state }: Layout): readonly [string, ...string[]] {
  const binds = Object.entries(KUBELET_SYSCTLS).map(([key, value]) => {
    const copy = `${run}/sysctl-${key.replaceAll('/', '.')}`;
    return `echo ${value} > ${copy}; mount --bind ${copy} /proc/sys/${key}`;
  });
  const program = [
    'kubelet',
    `--config=${etc}/kubelet.json`,
    `--kubeconfig=${etc}/kubelet.kubeconfig`,
    `--root-dir=${state}/kubelet`,
    `--hostname-override=${node}`,
    `--node-ip=${address}`,
  ];
  // Its other mounts still propagate to containerd; `/proc` alone is its own.
  const script = ['set -e', 'mount --make-private /proc', ...binds, `exec ${program.join(' ')}`].join('\n');
  return ['unshare', '--mount', '--propagation=unchanged', 'sh', '-c', script];
}

/**
 * The kubelet sets these for the whole machine. It gets private copies that hold what it wants, so that the machine's
 * stay as they are.
 */
const KUBELET_SYSCTLS = {
  'vm/overcommit_memory': 1,
  'vm/panic_on_oom': 0,
  'kernel/panic': 10,
  'kernel/panic_on_oops': 1,
  'kernel/keys/root_maxkeys': 1_000_000,
  'kernel/keys/root_maxbytes': 25_000_000,
};
