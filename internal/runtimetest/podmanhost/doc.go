// Package podmanhost gives tests, the demo and the benchmark a Podman of their
// own: a `podman system service` on private storage with a private network,
// in which docker.io/library/nginx and docker.io/library/busybox are present and
// no registry can be reached. It needs root, and Podman 4 or newer with runc.
//
// In go the cache that scripts/testimages fills; out comes a socket and the
// environment that makes any podman command use the same storage. Everything a
// host creates on the machine (processes, mounts, network namespaces, the bridge
// and its firewall rules, cgroups) is removed again by [Service.Remove], from what
// the machine shows and not from memory, so that it also works after a crash: a
// host whose owner died is removed by the next one that is created.
//
// The package owns one goroutine per running service, which waits for it to exit;
// it ends when the service does.
package podmanhost
