// Package podman drives Podman through its API bindings; nothing else imports
// them. It makes and ends sandboxes and containers for the reconciler, and
// reports what there is, and what happens, to the observer.
//
// A Driver owns the goroutines of its idle connections, and one for each running
// container that waits for its process to end. Close ends them. Calls carry their
// caller's deadline to Podman and give errors a class; they work again once a
// service that was away is back. Only what carries the node's labels is ever
// touched or reported.
package podman

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"podstead.io/podstead/internal/pod"
)

// Options are what a Driver needs.
type Options struct {
	// URL is the service's socket: unix:///run/podman/podman.sock.
	URL string
	// Node is the identity that labels carry.
	Node string
	// OOMKilled says of a container's ID whether the kernel killed a process of
	// it for memory; nil: only Podman is believed.
	OOMKilled func(id string) bool
	Log       *slog.Logger
}

// Driver speaks to one Podman service.
type Driver struct {
	o Options

	transport *http.Transport
	// connection holds the bindings' connection; nil before the first call.
	connection atomic.Pointer[context.Context]

	// infra remembers, by the ID of a Podman pod of the node's, its infra
	// container's ID, or name while the ID was not heard of. It saves an
	// inspection, as do the next two.
	infra sync.Map
	// mine remembers the IDs of containers that carry the node's labels; true:
	// made by this driver and not started yet.
	mine sync.Map
	// paths remembers, by image ID, whether the image sets PATH.
	paths sync.Map
	exits exits
}

// New makes a driver. It does not connect: the service may come later.
func New(o Options) (*Driver, error) {
	socket, ok := strings.CutPrefix(o.URL, "unix://")
	if !ok || !strings.HasPrefix(socket, "/") {
		return nil, &pod.Error{Class: pod.Invalid, Op: "use Podman at", Object: o.URL, Err: errors.New("give the path of its socket as unix:///path")}
	}
	d := &Driver{o: o, exits: exits{processes: map[string]*process{}, followers: map[*func(pod.RuntimeEvent)]struct{}{}, log: o.Log}}
	d.transport = newTransport(socket, d.exits.dialed)
	return d, nil
}

// Close ends the idle connections and the waiting for processes.
func (d *Driver) Close() {
	d.transport.CloseIdleConnections()
	d.exits.close()
}

// foreign is the error about an object with a name of ours that is not ours.
func foreign(op, name string) error {
	return &pod.Error{Class: pod.Conflict, Op: op, Object: name, Err: errors.New("something that does not belong to this node has the name; remove it with podman, or rename it")}
}
