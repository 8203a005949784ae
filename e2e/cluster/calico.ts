/**
 * Calico on every node of native and kind clusters: its CNI plugin connects a pod, and Felix enforces the
 * NetworkPolicies.
 */

/** What both of its programs need to know about a node; paths are in the node. */
interface CalicoNode {
  readonly node: string;
  readonly kubeconfig: string;
}

/** The runtime's configuration of the pods' network. */
export const podNetwork = ({ node, kubeconfig, addresses }: CalicoNode & { readonly addresses: string }) => ({
  name: 'pods',
  cniVersion: '1.0.0',
  plugins: [
    {
      type: 'calico',
      log_level: 'info',
      log_file_path: '/var/log/calico/cni/cni.log',
      datastore_type: 'kubernetes',
      nodename: node,
      nodename_file_optional: true,
      mtu: 1400,
      ipam: { type: 'host-local', subnet: 'usePodCidr', dataDir: addresses },
      policy: { type: 'k8s' },
      kubernetes: { kubeconfig },
    },
    { type: 'portmap', snat: true, capabilities: { portMappings: true } },
  ],
});

/** `device` is the node's own interface, whose packets may be as long as a pod's. */
export function felixEnvironment(
  of: CalicoNode & { readonly device: string },
): Readonly<Record<string, string>> {
  return {
    ...FELIX,
    FELIX_MTUIFACEPATTERN: `^${of.device}$`,
    FELIX_FELIXHOSTNAME: of.node,
    KUBECONFIG: of.kubeconfig,
  };
}

const FELIX = {
  DATASTORE_TYPE: 'kubernetes',
  FELIX_DATASTORETYPE: 'kubernetes',
  FELIX_INTERFACEPREFIX: 'cali',
  FELIX_DEFAULTENDPOINTTOHOSTACTION: 'Accept',
  FELIX_IPTABLESBACKEND: 'nft',
  FELIX_BPFENABLED: 'false',
  FELIX_BPFCONNECTTIMELOADBALANCING: 'Disabled',
  FELIX_XDPENABLED: 'false',
  FELIX_IPV6SUPPORT: 'false',
  FELIX_IPINIPENABLED: 'false',
  FELIX_VXLANENABLED: 'false',
  FELIX_WIREGUARDENABLED: 'false',
  FELIX_FLOATINGIPS: 'Disabled',
  FELIX_USAGEREPORTINGENABLED: 'false',
  FELIX_HEALTHENABLED: 'true',
  FELIX_HEALTHHOST: '127.0.0.1',
  FELIX_HEALTHPORT: '9099',
  FELIX_LOGFILEPATH: 'none',
  FELIX_LOGSEVERITYFILE: 'none',
  FELIX_LOGSEVERITYSYS: 'none',
  FELIX_LOGSEVERITYSCREEN: 'Warning', // at Info it writes 11 MB in 20 minutes
  FELIX_ENDPOINTSTATUSPATHPREFIX: '',
};
