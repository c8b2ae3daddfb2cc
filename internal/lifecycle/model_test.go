package lifecycle

import (
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"podstead.io/podstead/internal/pod"
)

// model is a pod with a runtime that does what it is told, in memory: what a
// plan amounts to when every action succeeds.
type model struct {
	t    testing.TB
	snap pod.Snapshot
	now  time.Time
	ids  int
	// exits maps a container to the code its process ends with at once;
	// containers not in it keep running.
	exits map[string]int
	// stopCode is what a process that is told to stop ends with.
	stopCode int
	gone     bool
}

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// newModel wants a pod with the named containers; a name that starts with
// "init" is an init container.
func newModel(t testing.TB, policy corev1.RestartPolicy, names ...string) *model {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "default", UID: "u"},
		Spec:       corev1.PodSpec{RestartPolicy: policy, TerminationGracePeriodSeconds: ptr.To[int64](30)},
	}
	d := pod.Desired{
		Key: pod.Key{Namespace: "default", Name: "web"}, UID: "u", Generation: 1, Revision: 1, Pod: p, CreatedAt: epoch,
		Source: pod.Source{ID: "directory:/m", Kind: pod.SourceDirectory}, Unit: "web.yaml", Place: "web.yaml",
	}
	for i, n := range names {
		c := corev1.Container{Name: n, Image: "busybox"}
		kind := pod.KindContainer
		if len(n) >= 4 && n[:4] == "init" {
			kind = pod.KindInit
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		} else {
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
		d.Containers = append(d.Containers, pod.DesiredContainer{Name: n, Kind: kind, Ordinal: i, Image: "busybox", Revision: 1, Attempt: -1})
	}
	return &model{t: t, snap: pod.Snapshot{Desired: d}, now: epoch, exits: map[string]int{}, stopCode: 137}
}

func (m *model) id(prefix string) string {
	m.ids++
	return fmt.Sprintf("%s%d", prefix, m.ids)
}

func (m *model) tick() time.Time {
	m.now = m.now.Add(time.Millisecond)
	return m.now
}

// step decides once and carries everything out. It reports whether there was
// anything to do.
func (m *model) step() Decision {
	m.t.Helper()
	d := Next(m.snap, m.now)
	m.record(d)
	m.carryOut(d)
	return d
}

// record takes the decision into the desired state.
func (m *model) record(d Decision) {
	m.t.Helper()
	want := &m.snap.Desired
	if d.Event != "" {
		to, err := FirePod(want.State, d.Event)
		if err != nil {
			m.t.Fatalf("illegal event: %v", err)
		}
		if d.Cause == "" {
			m.t.Fatalf("event %s has no cause", d.Event)
		}
		want.State = to
	}
	for _, tr := range d.Transitions {
		m.legal(tr)
	}
	for name, n := range d.Attempts {
		i := slices.IndexFunc(want.Containers, func(c pod.DesiredContainer) bool { return c.Name == name })
		if n <= want.Containers[i].Attempt {
			m.t.Fatalf("attempt %d of %s reserved twice", n, name)
		}
		want.Containers[i].Attempt = n
	}
	for _, b := range d.Backoffs {
		want.Backoffs = slices.DeleteFunc(want.Backoffs, func(o pod.Backoff) bool { return o.Container == b.Container && o.Kind == b.Kind })
		want.Backoffs = append(want.Backoffs, b)
	}
	for _, a := range d.Actions {
		for _, j := range a.After {
			if j < 0 || j >= len(d.Actions) {
				m.t.Fatalf("%s comes after action %d of %d", a.Op, j, len(d.Actions))
			}
		}
	}
}

func (m *model) legal(tr pod.Transition) {
	m.t.Helper()
	if to, err := Fire(pod.MachineContainer, tr.From, tr.Event); err != nil || to != tr.To {
		m.t.Fatalf("transition %s --%s--> %s: %v (leads to %q)", tr.From, tr.Event, tr.To, err, to)
	}
	if tr.Cause == "" {
		m.t.Fatalf("transition %s --%s--> %s has no cause", tr.From, tr.Event, tr.To)
	}
}

// carryOut takes the actions in an order that After allows.
func (m *model) carryOut(d Decision) {
	m.t.Helper()
	done := make([]bool, len(d.Actions))
	for left := len(d.Actions); left > 0; {
		before := left
		for i, a := range d.Actions {
			if done[i] || slices.ContainsFunc(a.After, func(j int) bool { return !done[j] }) {
				continue
			}
			m.do(a)
			if a.Then != nil {
				m.legal(*a.Then)
			}
			done[i] = true
			left--
		}
		if left == before {
			m.t.Fatalf("plan waits for itself: %+v", d.Actions)
		}
	}
}

func (m *model) do(a Action) {
	m.t.Helper()
	o := &m.snap.Observed
	switch a.Op {
	case OpCreateSandbox:
		for _, b := range o.Sandboxes {
			m.t.Fatalf("sandbox created while %s exists", b.ID)
		}
		o.Sandboxes = append(o.Sandboxes, pod.Sandbox{ID: m.id("box"), InfraID: m.id("infra"), UID: "u", Attempt: a.Attempt, Revision: m.snap.Desired.Revision, State: pod.RunCreated, CreatedAt: m.tick()})
	case OpStartSandbox:
		i := 0
		if a.ID != "" {
			i = m.box(a.ID)
		}
		if !o.Sandboxes[i].State.Live() {
			o.Sandboxes[i].Run++
			o.Sandboxes[i].State, o.Sandboxes[i].StartedAt = pod.RunRunning, m.tick()
		}
	case OpStopSandbox:
		i := slices.IndexFunc(o.Sandboxes, func(b pod.Sandbox) bool { return b.InfraID == a.ID })
		o.Sandboxes[i].State = pod.RunExited
	case OpRemoveSandbox:
		if len(o.Sandboxes) == 0 {
			return // absent is fine
		}
		m.removeSandbox(m.box(a.ID), a.Cause)
	case OpCreateContainer:
		m.create(a)
	case OpStartContainer:
		m.start(m.byName(a.Container, a.Attempt))
	case OpStopContainer:
		m.end(m.byID(a.ID), m.stopCode, a.Cause)
	case OpRemoveContainer:
		m.observe(m.byID(a.ID), nil)
	case OpForget:
		if live := m.live(""); len(live)+len(o.Sandboxes) > 0 {
			m.t.Fatalf("forgotten with %d live containers and %d sandboxes", len(live), len(o.Sandboxes))
		}
		m.gone = true
	}
}

func (m *model) box(id string) int {
	m.t.Helper()
	i := slices.IndexFunc(m.snap.Observed.Sandboxes, func(b pod.Sandbox) bool { return b.ID == id })
	if i < 0 {
		m.t.Fatalf("no sandbox %s", id)
	}
	return i
}

func (m *model) byID(id string) int {
	m.t.Helper()
	i := slices.IndexFunc(m.snap.Observed.Containers, func(c pod.Container) bool { return c.ID == id })
	if i < 0 {
		m.t.Fatalf("no container %s", id)
	}
	return i
}

func (m *model) byName(name string, attempt int) int {
	m.t.Helper()
	i := slices.IndexFunc(m.snap.Observed.Containers, func(c pod.Container) bool {
		return c.Container == name && c.Attempt == attempt && c.State != pod.RunGone
	})
	if i < 0 {
		m.t.Fatalf("no attempt %d of container %s", attempt, name)
	}
	return i
}

func (m *model) create(a Action) {
	m.t.Helper()
	o := &m.snap.Observed
	id := a.ID
	if id == "" {
		id = o.Sandboxes[0].ID
	}
	m.box(id)
	if slices.ContainsFunc(o.Containers, func(c pod.Container) bool {
		return c.Container == a.Container && c.Attempt == a.Attempt && c.State != pod.RunGone
	}) {
		m.t.Fatalf("attempt %d of %s created twice", a.Attempt, a.Container)
	}
	i := slices.IndexFunc(m.snap.Desired.Containers, func(c pod.DesiredContainer) bool { return c.Name == a.Container })
	dc := m.snap.Desired.Containers[i]
	if a.Attempt > dc.Attempt {
		m.t.Fatalf("attempt %d of %s was not reserved", a.Attempt, a.Container)
	}
	o.Containers = append(o.Containers, pod.Container{Container: a.Container, Kind: dc.Kind, ID: m.id("c"), SandboxID: id, Attempt: a.Attempt, Revision: dc.Revision, State: pod.RunCreated, CreatedAt: m.tick()})
}

func (m *model) start(i int) {
	m.t.Helper()
	c := m.snap.Observed.Containers[i]
	b := m.snap.Observed.Sandboxes[m.box(c.SandboxID)]
	if !b.State.Live() {
		m.t.Fatalf("container %s started in a sandbox that is %s", c.Container, b.State)
	}
	c.SandboxRun = b.Run
	if live := m.live(c.Container); len(live) > 0 {
		m.t.Fatalf("container %s started beside attempt %d", c.Container, live[0].Attempt)
	}
	c.State, c.StartedAt = pod.RunRunning, m.tick()
	m.observe(i, &c)
	if code, ok := m.exits[c.Container]; ok {
		m.end(i, code, pod.CauseExit)
	}
}

func (m *model) end(i, code int, cause pod.Cause) {
	c := m.snap.Observed.Containers[i]
	if !c.State.Live() {
		return
	}
	c.State, c.ExitCode, c.FinishedAt, c.EndCause = pod.RunExited, code, m.tick(), cause
	m.observe(i, &c)
}

func (m *model) removeSandbox(i int, cause pod.Cause) {
	o := &m.snap.Observed
	id := o.Sandboxes[i].ID
	o.Sandboxes = slices.Delete(o.Sandboxes, i, i+1)
	for j := len(o.Containers) - 1; j >= 0; j-- {
		if o.Containers[j].SandboxID == id {
			o.Containers[j].EndCause = cause
			m.observe(j, nil)
		}
	}
}

// observe replaces a container as the store does: the latest attempt of a
// wanted container stays as gone.
func (m *model) observe(i int, after *pod.Container) {
	m.t.Helper()
	o := &m.snap.Observed
	before := o.Containers[i]
	for _, tr := range ContainerEdge(pod.Transition{}, &before, after) {
		if tr.Cause == "" {
			tr.Cause = pod.CauseExit
		}
		m.legal(tr)
	}
	if after != nil {
		o.Containers[i] = *after
		return
	}
	wanted := slices.ContainsFunc(m.snap.Desired.Containers, func(d pod.DesiredContainer) bool { return d.Name == before.Container })
	latest := !slices.ContainsFunc(o.Containers, func(c pod.Container) bool {
		return c.Container == before.Container && c.Attempt > before.Attempt
	})
	if wanted && latest && !m.gone {
		o.Containers[i].State = pod.RunGone
		return
	}
	o.Containers = slices.Delete(o.Containers, i, i+1)
}

// live lists the live containers of a name, or all.
func (m *model) live(name string) (out []pod.Container) {
	for _, c := range m.snap.Observed.Containers {
		if c.State.Live() && (name == "" || c.Container == name) {
			out = append(out, c)
		}
	}
	return out
}

// settle steps until there is nothing to do, passing over back-offs.
func (m *model) settle() {
	m.t.Helper()
	for range 60 {
		if m.gone {
			return
		}
		d := m.step()
		switch {
		case !d.Idle():
		case d.Again.IsZero():
			return
		default:
			m.now = d.Again
		}
	}
	m.t.Fatalf("does not settle: next is %+v", Next(m.snap, m.now))
}
