// Package podman drives Podman through its API bindings; nothing else imports
// them. It makes and ends sandboxes and containers for the reconciler, and
// reports what there is, and what happens, to the observer.
//
// A Driver owns no goroutine. Its calls carry their caller's deadline to Podman
// and give errors a class; they work again once a service that was away is back.
// Only what carries the node's label is ever touched or reported.
package podman

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/containers/podman/v4/pkg/bindings"
	"github.com/containers/podman/v4/pkg/bindings/system"

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

	mu   sync.Mutex
	conn context.Context // holds the bindings' connection; nil before the first call

	// infra remembers, by Podman pod, the infra containers just created, which
	// saves an inspection on the way to the first start.
	infra sync.Map
	// mine remembers the IDs that were seen to carry the node's labels.
	mine sync.Map
	// paths remembers, by image ID, whether the image sets PATH.
	paths sync.Map
}

// New makes a driver. It does not connect: the service may come later.
func New(o Options) (*Driver, error) {
	if !strings.HasPrefix(o.URL, "unix://") {
		return nil, &pod.Error{Class: pod.Invalid, Op: "use Podman at", Object: o.URL, Err: errors.New("give the path of its socket as unix:///path")}
	}
	return &Driver{o: o}, nil
}

// callContext ends with the caller's context and holds the bindings' connection.
type callContext struct {
	context.Context
	conn context.Context
}

func (c callContext) Value(key any) any {
	if v := c.conn.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// call prepares a context for the bindings. They ping the service once, when
// the connection is made; it redials by itself afterwards.
func (d *Driver) call(ctx context.Context) (context.Context, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.conn == nil {
		conn, err := bindings.NewConnection(ctx, d.o.URL)
		if err != nil {
			return nil, classify("connect to Podman at", d.o.URL, err)
		}
		d.conn = context.WithoutCancel(conn)
	}
	return callContext{Context: ctx, conn: d.conn}, nil
}

// Ping asks for a sign of life.
func (d *Driver) Ping(ctx context.Context) error {
	ctx, err := d.call(ctx)
	if err != nil {
		return err
	}
	client, err := bindings.GetClient(ctx)
	if err != nil {
		return classify("ping Podman at", d.o.URL, err)
	}
	resp, err := client.DoRequest(ctx, nil, "GET", "/_ping", nil, nil)
	if err != nil {
		return classify("ping Podman at", d.o.URL, err)
	}
	return resp.Body.Close()
}

// Version is the service's version, such as 4.3.1.
func (d *Driver) Version(ctx context.Context) (string, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return "", err
	}
	v, err := system.Version(ctx, nil)
	if err != nil {
		return "", classify("ask the version of Podman at", d.o.URL, err)
	}
	if v.Server == nil {
		return "", &pod.Error{Class: pod.Unavailable, Op: "ask the version of Podman at", Object: d.o.URL, Err: errors.New("the service did not say")}
	}
	return v.Server.Version, nil
}

// normalize makes a time of Podman's comparable with one that the store kept:
// UTC, whole microseconds, and Podman's year 1 is no time.
func normalize(t time.Time) time.Time {
	if t.Year() <= 1 || t.Unix() <= 0 {
		return time.Time{}
	}
	return t.UTC().Truncate(time.Microsecond)
}

// runState translates libpod's states.
func runState(s string) pod.RunState {
	switch s {
	case "configured", "created", "initialized":
		return pod.RunCreated
	case "running", "stopping":
		return pod.RunRunning
	case "paused":
		return pod.RunPaused
	case "stopped", "exited", "removing":
		return pod.RunExited
	default:
		return pod.RunUnknown
	}
}

// foreign is the error about an object with a name of ours that is not ours.
func foreign(op, name string) error {
	return &pod.Error{Class: pod.Conflict, Op: op, Object: name, Err: fmt.Errorf("something that does not belong to this node has the name; remove it with podman, or rename it")}
}
