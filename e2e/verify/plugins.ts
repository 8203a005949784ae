/**
 * Detects the network plugin and the agents that enforce its policies, with their versions, as far as the cluster
 * shows them.
 */
import type { KubeObject } from '../space/kube-object.ts';

/** A network plugin puts its program and its configuration into these folders of a node. */
const FOLDERS =
  /^(\/etc\/cni\b|\/opt\/cni\b|\/home\/kubernetes\/bin$|\/var\/lib\/cni\b|\/etc\/kubernetes\/cni\b)/;
/** Agents that enforce policies on a network which another plugin provides. */
const AGENTS = /network-?polic|azure-npm|kube-router|calico|cilium|antrea|ovnkube/;

/** `calico` is the version that Calico writes into the cluster, even if no pod runs it. */
export function pluginsOf(daemonSets: readonly KubeObject[], calico: string | undefined): string[] {
  const agents = daemonSets.filter(
    ({ metadata, spec }) =>
      AGENTS.test(metadata.name) ||
      (spec.template.spec.volumes ?? []).some(({ hostPath }: { hostPath?: { path: string } }) =>
        FOLDERS.test(hostPath?.path ?? ''),
      ),
  );
  return [
    ...(calico === undefined ? [] : [`Calico ${calico}`]),
    ...agents.map(({ metadata, spec }) => {
      const images = spec.template.spec.containers.map(({ image }: { image: string }) => image);
      return `DaemonSet ${metadata.namespace}/${metadata.name}: ${images.join(', ')}`;
    }),
  ];
}
