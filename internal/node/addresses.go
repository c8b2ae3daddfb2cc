// Package node knows the machine: its addresses, and the containers that the
// kernel killed for memory. It owns no goroutine.
package node

import (
	"net"
	"slices"

	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// Addresses are the node's own addresses, at most one of each family, primary
// first: that of the default route, as kubelet chooses it, or else the first
// global one of an interface that is up. No name is looked up. A machine without
// a network has its loopback address.
func Addresses() []string {
	var ips []net.IP
	if ip, err := utilnet.ChooseHostInterface(); err == nil {
		ips = append(ips, ip)
	}
	for _, ip := range globalAddresses() {
		sameFamily := func(have net.IP) bool { return (have.To4() == nil) == (ip.To4() == nil) }
		if !slices.ContainsFunc(ips, sameFamily) {
			ips = append(ips, ip)
		}
	}
	if len(ips) == 0 {
		return []string{"127.0.0.1"}
	}
	out := make([]string, len(ips))
	for i, ip := range ips {
		out[i] = ip.String()
	}
	return out
}

// globalAddresses lists those of real interfaces before those of bridges, which
// Podman makes for its networks.
func globalAddresses() []net.IP {
	interfaces, err := net.Interfaces()
	if err != nil {
		return nil
	}
	var out []net.IP
	for _, i := range interfaces {
		if i.Flags&net.FlagUp == 0 || i.Flags&net.FlagLoopback != 0 || isBridge(i.Name) {
			continue
		}
		addrs, err := i.Addrs()
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
				out = append(out, n.IP)
			}
		}
	}
	return out
}
