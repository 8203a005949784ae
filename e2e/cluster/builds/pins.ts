/** How each component is built. Versions are pinned in `modules/<component>/go.mod`, contents in its `go.sum`. */
export interface Build {
  readonly component: string;
  /** The folder of its Go module, if it shares another component's; what they share is compiled once. */
  readonly module?: string;
  /** Package → name of the program in the cache entry. */
  readonly programs: Readonly<Record<string, string>>;
  /** Values of string variables (`-X`). */
  readonly variables?: Readonly<Record<string, string>>;
  readonly tags?: readonly string[];
  readonly cgo?: boolean;
  readonly patches?: readonly Patch[];
  /** Directories of a module that are stored with the programs. */
  readonly data?: readonly { readonly module: string; readonly path: string; readonly as: string }[];
}

/** A substitution in a dependency's file; the build fails unless it matches exactly `times` lines. */
export interface Patch {
  readonly file: string;
  readonly find: string;
  readonly replace: string;
  readonly times: number;
}

const KUBERNETES = 'v1.36.3';
const componentVersion = 'k8s.io/component-base/version';
const versionVariables = {
  [`${componentVersion}.gitVersion`]: KUBERNETES,
  [`${componentVersion}.gitMajor`]: '1',
  [`${componentVersion}.gitMinor`]: '36',
  [`${componentVersion}.gitTreeState`]: 'clean',
  [`${componentVersion}.gitCommit`]: 'go-module',
};
const calico = 'github.com/projectcalico/calico';
const plugins = 'github.com/containernetworking/plugins/plugins';

export const BUILDS: readonly Build[] = [
  {
    component: 'kubernetes',
    // They are one module, so that common packages are compiled once: k8s.io, grpc, protobuf, telemetry.
    programs: {
      '.': 'kubernetes',
      './coredns': 'coredns',
      'helm.sh/helm/v4/cmd/helm': 'helm',
      'go.etcd.io/etcd/server/v3': 'etcd',
    },
    variables: { 'helm.sh/helm/v4/internal/version.version': 'v4.2.4', ...versionVariables },
  },
  {
    component: 'calico',
    programs: {
      [`${calico}/felix/cmd/calico-felix`]: 'calico-felix',
      [`${calico}/cni-plugin/cmd/calico`]: 'cni/calico',
    },
    patches: [
      // Calico's own api module is not served as a module. The one that is served has a named type in place of a
      // string.
      {
        file: `${calico}/libcalico-go/lib/validator/v3/validator.go`,
        find: 's == api\\.(IptablesBackend[A-Za-z]*)',
        replace: 's == string(api.$1)',
        times: 1,
      },
      // Felix can set an option of Amazon's machines, for which it would compile Amazon's whole EC2 client, a third
      // of its build. The option is off by default, and stays off.
      {
        file: `${calico}/felix/dataplane/driver.go`,
        find: `"${calico}/felix/aws"|updater := aws\\.NewEC2SrcDstCheckUpdater\\(\\)`,
        replace: '',
        times: 2,
      },
      {
        file: `${calico}/felix/dataplane/driver.go`,
        find: 'go aws\\.WaitForEC2SrcDstCheckUpdate\\(.*, c\\)',
        replace: '_ = c',
        times: 1,
      },
    ],
    data: [{ module: calico, path: 'libcalico-go/config/crd', as: 'crds' }],
  },
  {
    component: 'gvisor',
    programs: { 'gvisor.dev/gvisor/runsc': 'runsc', 'gvisor.dev/gvisor/shim': 'containerd-shim-runsc-v1' },
    variables: { 'gvisor.dev/gvisor/runsc/version.version': '20260905.0' },
    patches: [
      // The shim sets its own oom_score_adj to −999. For root without CAP_SYS_RESOURCE that is EACCES, and the shim
      // ends.
      {
        file: 'gvisor.dev/gvisor/pkg/shim/v1/manager.go',
        find: '(oomScoreMax *= *)-999',
        replace: '$10',
        times: 1,
      },
    ],
  },
  {
    component: 'containerd',
    programs: {
      'github.com/containerd/containerd/v2/cmd/containerd': 'containerd',
      'github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2': 'containerd-shim-runc-v2',
      'github.com/containerd/containerd/v2/cmd/ctr': 'ctr',
    },
    variables: { 'github.com/containerd/containerd/v2/version.Version': 'v2.4.2' },
  },
  { component: 'versitygw', programs: { 'github.com/versity/versitygw/cmd/versitygw': 'versitygw' } },
  // cgo for libseccomp: without it a pod's seccomp profile would not be applied.
  { component: 'runc', programs: { 'github.com/opencontainers/runc': 'runc' }, tags: ['seccomp'], cgo: true },
  {
    component: 'cni',
    programs: {
      [`${plugins}/ipam/host-local`]: 'cni/host-local',
      [`${plugins}/main/loopback`]: 'cni/loopback',
      [`${plugins}/meta/portmap`]: 'cni/portmap',
    },
  },
];

/**
 * The version of Kubernetes on every native node; a kind cluster may have another patch of the same minor version.
 */
export const KUBERNETES_VERSION = KUBERNETES;

/** Further programs for a kind cluster and its lab; `reader` shows the tests how kind interprets a configuration. */
export const KIND_BUILDS: readonly Build[] = [
  {
    component: 'kind',
    programs: { 'sigs.k8s.io/kind': 'kind', './reader': 'reader' },
    data: [
      { module: 'sigs.k8s.io/kind', path: 'images/base/files', as: 'base' },
      { module: 'sigs.k8s.io/kind', path: 'pkg/build/nodeimage', as: 'nodeimage' },
    ],
  },
  {
    component: 'kind-node',
    module: 'kubernetes',
    programs: {
      'k8s.io/kubernetes/cmd/kubeadm': 'kubeadm',
      'github.com/rancher/local-path-provisioner': 'local-path-provisioner',
    },
    variables: versionVariables,
  },
];

/** A server that only `npm run soak -- s3-cluster` starts; no cluster and no other test needs it. */
export const MINIO_BUILD: Build = { component: 'minio', programs: { 'github.com/minio/minio': 'minio' } };
/** The same for another S3 server. */
export const SEAWEEDFS_BUILD: Build = {
  component: 'seaweedfs',
  programs: { 'github.com/seaweedfs/seaweedfs/weed': 'weed' },
};

/** The names by which the combined Kubernetes program is called. */
export const KUBERNETES_PROGRAMS = [
  'kube-apiserver',
  'kube-controller-manager',
  'kube-proxy',
  'kube-scheduler',
  'kubectl',
  'kubelet',
] as const;
