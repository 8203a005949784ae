// Command reader prints the files that a node would get from a cluster's configuration, according to kind's own code. Its
// arguments are the configuration and the node's /etc/containerd/config.toml; the result is JSON.
//
// That code is internal to kind, so the name of this module has to begin with that of kind's.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"sigs.k8s.io/kind/pkg/cluster/internal/kubeadm"
	"sigs.k8s.io/kind/pkg/internal/apis/config/encoding"
	"sigs.k8s.io/kind/pkg/internal/patch"
)

func main() {
	if err := read(os.Args[1], os.Args[2]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func read(configuration, containerd string) error {
	cluster, err := encoding.Load(configuration)
	if err != nil {
		return err
	}
	if err := cluster.Validate(); err != nil {
		return err
	}
	base, err := os.ReadFile(containerd)
	if err != nil {
		return err
	}
	patched, err := patch.ContainerdTOML(string(base), cluster.ContainerdConfigPatches, cluster.ContainerdConfigPatchesJSON6902)
	if err != nil {
		return err
	}
	plain, err := kubeadm.Config(kubeadm.ConfigData{
		ClusterName:          "space",
		KubernetesVersion:    "v1.36.0",
		ControlPlaneEndpoint: "space-control-plane:6443",
		APIBindPort:          6443,
		NodeAddress:          "172.18.0.2",
		ControlPlane:         true,
		PodSubnet:            cluster.Networking.PodSubnet,
		ServiceSubnet:        cluster.Networking.ServiceSubnet,
		KubeProxyMode:        string(cluster.Networking.KubeProxyMode),
	})
	if err != nil {
		return err
	}
	node, err := patch.KubeYAML(plain, cluster.KubeadmConfigPatches, cluster.KubeadmConfigPatchesJSON6902)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{
		"containerd":        patched,
		"kubeadm":           node,
		"disableDefaultCNI": cluster.Networking.DisableDefaultCNI,
	})
}
