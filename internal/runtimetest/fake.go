package runtimetest

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"podstead.io/podstead/internal/pod"
)

// Options say what a Fake is like. Every field may be left out.
type Options struct {
	// Node is the identity whose labels the runtime looks for; "fake" if empty.
	Node string
	// Latency is what each call takes; one that is missing takes no time.
	Latency map[Op]time.Duration
	// Now is the clock on the wall, which times are reported by; time.Now if nil.
	Now func() time.Time
}

// PodmanLatency is what the calls take with Podman 4.3 on a small machine.
var PodmanLatency = map[Op]time.Duration{
	OpCreateSandbox: 55 * time.Millisecond, OpStartSandbox: 120 * time.Millisecond, OpRemoveSandbox: 200 * time.Millisecond,
	OpCreateContainer: 45 * time.Millisecond, OpStartContainer: 60 * time.Millisecond, OpRemoveContainer: 60 * time.Millisecond,
	OpStopContainer: 30 * time.Millisecond, OpList: 40 * time.Millisecond, OpListImages: 20 * time.Millisecond,
	OpInspectSandbox: 3 * time.Millisecond, OpInspectContainer: 3 * time.Millisecond,
}

// Fake is a container runtime in memory: reconcile.Runtime and the read side
// that internal/observe asks for; Images and Volumes give the rest. Its methods
// may be called from any goroutine. Close it.
type Fake struct {
	node    string
	latency map[Op]time.Duration
	clock   func() time.Time
	images  *ImageStore
	volumes *VolumeStore

	mu         sync.Mutex
	serial     int
	sandboxes  map[string]*sandbox
	containers map[string]*container // infra containers and foreign ones too
	names      map[string]string     // pods and containers share one set of names, as in Podman
	scripts    map[string][]Script
	faults     []*fault
	log        []*call
	ticks      int // begins and ends of calls, to order them
	service    service
	stream     eventLog
	violations []string
	lives      []*Life
}

// New makes a runtime with nothing in it.
func New(o Options) *Fake {
	if o.Node == "" {
		o.Node = "fake"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	f := &Fake{
		node: o.Node, latency: o.Latency, clock: o.Now,
		sandboxes: map[string]*sandbox{}, containers: map[string]*container{}, names: map[string]string{}, scripts: map[string][]Script{},
		service: service{changed: make(chan struct{})},
		stream:  eventLog{followers: map[*follower]struct{}{}},
	}
	f.images = &ImageStore{f: f, present: map[string]pod.Image{}, registry: map[string]Registry{}}
	f.volumes = &VolumeStore{f: f, made: map[string]string{}}
	return f
}

// Close ends every process without a word, and every event stream.
func (f *Fake) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.containers {
		c.disarm()
	}
	f.breakStreams()
}

// Node is the identity whose labels the runtime looks for.
func (f *Fake) Node() string { return f.node }

// sandbox is a Podman pod.
type sandbox struct {
	pod.Sandbox
	identity pod.Identity
	ports    []pod.PortMapping
	hostNet  bool
	infra    *container
}

// container is a container of any kind. Foreign ones have no identity.
type container struct {
	pod.Container
	identity pod.Identity
	script   Script

	network int           // which run of the infra container it was started in
	runs    int           // counts starts
	end     *time.Timer   // when the process ends by itself or for a signal
	endsAt  time.Time     // of end
	kill    *time.Timer   // when the grace is over
	killAt  time.Time     // of kill
	byHand  bool          // a person is stopping it
	stray   bool          // a person started it
	ended   chan struct{} // closed at the end of a run
	silent  bool          // its end is not reported
	args    []string
	// hostname is that of an infra container.
	hostname string
	life     *Life // of the process that there is, or was last
	stopped  End   // who is stopping it
}

func (c *container) disarm() {
	for _, t := range []*time.Timer{c.end, c.kill} {
		if t != nil {
			t.Stop()
		}
	}
	c.end, c.kill, c.killAt, c.endsAt = nil, nil, time.Time{}, time.Time{}
}

func (f *Fake) mine(i pod.Identity) bool { return i.Node == f.node }

func (f *Fake) id(prefix string) string {
	f.serial++
	return fmt.Sprintf("%s%06d", prefix, f.serial)
}

func (f *Fake) address() string { return fmt.Sprintf("10.88.%d.%d", f.serial/250, f.serial%250+2) }

// now is the time on the wall. What lasts is measured by time itself.
func (f *Fake) now() time.Time { return f.clock().UTC() }

// myContainer finds a container of this node by ID.
func (f *Fake) myContainer(op Op, id string) (*container, error) {
	if c := f.containers[id]; c != nil && f.mine(c.identity) {
		return c, nil
	}
	return nil, refuse(pod.NotFound, op, id, "no such container")
}

func (f *Fake) mySandbox(op Op, id string) (*sandbox, error) {
	if b := f.sandboxes[id]; b != nil && f.mine(b.identity) {
		return b, nil
	}
	return nil, refuse(pod.NotFound, op, id, "no such pod")
}

func refuse(class pod.Class, op Op, object, why string) error {
	return &pod.Error{Class: class, Op: string(op), Object: object, Err: errors.New(why)}
}

// same reports whether two identities are of one thing. The hash is of a whole
// manifest, which may change without the thing.
func same(a, b pod.Identity) bool {
	a.Hash, b.Hash = "", ""
	return a == b
}
