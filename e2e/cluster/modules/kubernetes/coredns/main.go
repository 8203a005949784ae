// Command coredns is CoreDNS with the plugins that this cluster's DNS and kubeadm's use and no other: it shares what it compiles with
// Kubernetes, where the whole would take a minute and a half of its own.
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
	// The order in which a query passes them.
	dnsserver.Directives = []string{
		"reload", "ready", "health", "prometheus", "errors", "loop", "cache", "loadbalance", "kubernetes", "forward",
	}
	coremain.Run()
}
