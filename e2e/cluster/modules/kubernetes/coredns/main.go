// Command coredns is CoreDNS with only the plugins that the DNS of this cluster and of kubeadm use. It shares compiled packages with
// Kubernetes, while the complete program would take another minute and a half to compile.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"

	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/health"
	_ "github.com/coredns/coredns/plugin/kubernetes"
	_ "github.com/coredns/coredns/plugin/loadbalance"
	_ "github.com/coredns/coredns/plugin/loop"
	_ "github.com/coredns/coredns/plugin/metrics"
	_ "github.com/coredns/coredns/plugin/ready"
	_ "github.com/coredns/coredns/plugin/reload"
)

func main() {
	// A query passes the plugins in this order.
	dnsserver.Directives = []string{
		"reload", "ready", "health", "prometheus", "errors", "loop", "cache", "loadbalance", "kubernetes", "forward",
	}
	coremain.Run()
}
