package lifecycle

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// minimumGrace is what a container gets whose pod's grace ran out while the
// agent was away: kubelet's minimumGracePeriodInSeconds.
const minimumGrace = 2 * time.Second

// Next decides what to do about one pod. A pod that is as desired gives an idle
// decision; carrying out the actions and deciding again converges.
func Next(s pod.Snapshot, now time.Time) Decision {
	p := newPlanner(s, now)
	switch {
	case s.Desired.Deletion != nil:
		p.terminate()
	case s.Desired.Unreadable != "":
		// What it wants can't be told: what runs is left as it is.
	case s.Predecessor != "":
		p.submit()
	default:
		p.submit()
		p.keep()
	}
	return p.out
}

// Discard is the plan for what was observed of a pod that nobody desires.
func Discard(o pod.Observation, detail string, now time.Time) Decision {
	p := newPlanner(pod.Snapshot{Observed: o}, now)
	removed := p.removeAll(30*time.Second, pod.CauseAgent, detail)
	p.add(Action{Op: OpRemoveVolumes, Cause: pod.CauseAgent, Detail: detail, After: removed})
	return p.out
}

// planner gathers one decision.
type planner struct {
	want pod.Desired
	seen pod.Observation
	now  time.Time
	out  Decision

	// sandbox is the one to use: right revision, highest attempt. The others
	// are stale.
	sandbox *pod.Sandbox
	stale   []pod.Sandbox
	// attempts are the containers by name, latest attempt first, without those
	// that were removed before they ran, and those that were made and are not to
	// be started any more: they are unused, and their numbers used again.
	attempts map[string][]pod.Container
	unused   map[string][]pod.Container
	cleared  map[string][]int // container → indexes of the actions that remove unused ones
	stops    map[string]int   // container ID → index of the action that stops it
	volumes  int              // index of the action that prepares volumes, −1 for none yet
}

func newPlanner(s pod.Snapshot, now time.Time) *planner {
	p := &planner{want: s.Desired, seen: s.Observed, now: now, attempts: map[string][]pod.Container{},
		unused: map[string][]pod.Container{}, cleared: map[string][]int{}, stops: map[string]int{}, volumes: -1}
	boxes := slices.Clone(s.Observed.Sandboxes)
	slices.SortFunc(boxes, func(a, b pod.Sandbox) int { return cmp.Compare(b.Attempt, a.Attempt) })
	for _, b := range boxes {
		if p.sandbox == nil && b.Revision == s.Desired.Revision {
			p.sandbox = &b
			continue
		}
		p.stale = append(p.stale, b)
	}
	for _, c := range s.Observed.Containers {
		if c.State == pod.RunGone && neverRan(c) {
			continue // its number is used again
		}
		p.attempts[c.Container] = append(p.attempts[c.Container], c)
	}
	for name, list := range p.attempts {
		slices.SortFunc(list, func(a, b pod.Container) int {
			return cmp.Or(cmp.Compare(b.Attempt, a.Attempt), cmp.Compare(presence(b.State), presence(a.State)))
		})
		p.setAside(name)
	}
	return p
}

// presence puts two containers of one number in order, which should not be: the
// one that is more than a memory counts.
func presence(s pod.RunState) int {
	switch {
	case s.Live():
		return 2
	case s != pod.RunGone:
		return 1
	default:
		return 0
	}
}

// setAside takes attempts that were made and never started from the others,
// unless the latest can be started as it is.
func (p *planner) setAside(name string) {
	i := slices.IndexFunc(p.want.Containers, func(dc pod.DesiredContainer) bool { return dc.Name == name })
	if i < 0 {
		return // all of it is to be removed
	}
	usable := func(c pod.Container) bool {
		return p.sandbox != nil && c.SandboxID == p.sandbox.ID && c.Revision == p.want.Containers[i].Revision
	}
	latest := p.attempts[name][0].ID
	p.attempts[name] = slices.DeleteFunc(p.attempts[name], func(c pod.Container) bool {
		aside := c.State == pod.RunCreated && neverRan(c) && (c.ID != latest || !usable(c))
		if aside {
			p.unused[name] = append(p.unused[name], c)
		}
		return aside
	})
	if len(p.attempts[name]) == 0 {
		delete(p.attempts, name)
	}
}

func (p *planner) latest(name string) *pod.Container {
	if list := p.attempts[name]; len(list) > 0 {
		return &list[0]
	}
	return nil
}

func (p *planner) add(a Action) int {
	p.out.Actions = append(p.out.Actions, a)
	return len(p.out.Actions) - 1
}

func (p *planner) event(name string, cause pod.Cause, detail string) {
	p.out.Event, p.out.Cause, p.out.Detail = name, cause, detail
}

func (p *planner) restart(container string, cause pod.Cause, detail string, attempt int) pod.Transition {
	return pod.Transition{
		Container: container, Machine: pod.MachineContainer,
		From: ContainerTerminated, Event: EventRestart, To: ContainerWaiting, Cause: cause, Detail: detail,
		Generation: p.want.Generation, Attempt: attempt,
	}
}

func (p *planner) useAttempt(name string, n int) {
	if p.out.Attempts == nil {
		p.out.Attempts = map[string]int{}
	}
	p.out.Attempts[name] = n
}

func (p *planner) lookAgain(at time.Time) {
	if p.out.Again.IsZero() || at.Before(p.out.Again) {
		p.out.Again = at
	}
}

// held reports whether a back-off forbids the operation now, and asks to be
// called when it ends.
func (p *planner) held(container string, kind pod.BackoffKind) bool {
	left := Left(FindBackoff(p.want.Backoffs, container, kind), p.now)
	if left == 0 {
		return false
	}
	p.lookAgain(p.now.Add(left))
	return true
}

// submit enters the pod, and any container new to it, into the machines. A
// container is new until an attempt has been reserved for it.
func (p *planner) submit() {
	if p.want.State == pod.StateNone {
		p.event(EventSubmit, pod.CauseSource, p.origin())
	}
	for _, dc := range p.want.Containers {
		if dc.Attempt < 0 && p.latest(dc.Name) == nil {
			p.out.Transitions = append(p.out.Transitions, pod.Transition{
				Container: dc.Name, Machine: pod.MachineContainer,
				Event: EventSubmit, To: ContainerWaiting, Cause: pod.CauseSource, Detail: p.origin(),
				Generation: p.want.Generation,
			})
			p.useAttempt(dc.Name, 0)
		}
	}
}

func (p *planner) origin() string {
	if p.want.Place == "" {
		return p.want.Source.ID
	}
	return p.want.Place
}

// grace is the pod's own grace period.
func (p *planner) grace() time.Duration {
	return pod.GracePeriod(p.want.Pod)
}

// stop plans the end of a live attempt, once.
func (p *planner) stop(c pod.Container, grace time.Duration, cause pod.Cause, detail string) int {
	if i, ok := p.stops[c.ID]; ok {
		return i
	}
	p.out.Intents = append(p.out.Intents, pod.Intent{ContainerID: c.ID, Cause: cause, Detail: detail})
	p.stops[c.ID] = p.add(Action{Op: OpStopContainer, Container: c.Container, ID: c.ID, Attempt: c.Attempt, Grace: grace, Cause: cause, Detail: detail})
	return p.stops[c.ID]
}

// terminate stops everything, removes it, and forgets the pod.
func (p *planner) terminate() {
	d := p.want.Deletion
	if p.want.State != pod.StateTerminating {
		p.event(EventDelete, d.Cause, d.Detail)
	}
	if p.held("", pod.BackoffRemove) {
		return
	}
	left := min(d.RequestedAt.Add(d.Grace).Sub(p.now), d.Grace) // the clock may have been set back
	removed := p.removeAll(max(left, min(d.Grace, minimumGrace)), d.Cause, d.Detail)
	if len(p.seen.Sandboxes) == 0 {
		// A removal that was cut off leaves a sandbox without its infra container,
		// and so does a creation; no listing shows that.
		name := pod.Identity{Key: p.want.Key, UID: p.want.UID}.SandboxName()
		removed = append(removed, p.add(Action{Op: OpRemoveSandbox, ID: name, Cause: d.Cause, Detail: d.Detail, After: removed}))
	}
	volumes := p.add(Action{Op: OpRemoveVolumes, Cause: d.Cause, After: removed})
	p.add(Action{Op: OpForget, Cause: d.Cause, Detail: d.Detail, After: append(slices.Clone(removed), volumes)})
}

// removeAll stops what runs and removes every sandbox and container.
func (p *planner) removeAll(grace time.Duration, cause pod.Cause, detail string) []int {
	var removed []int
	for _, b := range p.seen.Sandboxes {
		removed = append(removed, p.removeSandbox(b, grace, cause, detail))
	}
	for _, c := range p.seen.Containers {
		if c.State == pod.RunGone || slices.ContainsFunc(p.seen.Sandboxes, func(b pod.Sandbox) bool { return b.ID == c.SandboxID }) {
			continue
		}
		removed = append(removed, p.removeContainer(c, grace, cause, detail))
	}
	return removed
}

// removeSandbox stops the containers in it and removes it with them.
func (p *planner) removeSandbox(b pod.Sandbox, grace time.Duration, cause pod.Cause, detail string) int {
	var stopped []int
	for _, c := range p.seen.Containers {
		if c.SandboxID == b.ID && c.State.Live() {
			stopped = append(stopped, p.stop(c, grace, cause, detail))
		}
	}
	return p.add(Action{Op: OpRemoveSandbox, ID: b.ID, Attempt: b.Attempt, Cause: cause, Detail: detail, After: stopped})
}

func (p *planner) removeContainer(c pod.Container, grace time.Duration, cause pod.Cause, detail string) int {
	var stopped []int
	if c.State.Live() {
		stopped = append(stopped, p.stop(c, grace, cause, detail))
	}
	return p.add(Action{Op: OpRemoveContainer, Container: c.Container, ID: c.ID, Attempt: c.Attempt, Cause: cause, Detail: detail, After: stopped})
}

// neverRan reports whether a container had no process, and no try to start one
// that failed.
func neverRan(c pod.Container) bool {
	return c.StartedAt.IsZero() && c.FinishedAt.IsZero() && c.Error == ""
}

// exitCode is what the restart policy judges. A container that vanished before
// its end was seen counts as killed, as kubelet has it (ContainerStatusUnknown).
func exitCode(c pod.Container) int {
	if c.State == pod.RunGone && c.FinishedAt.IsZero() {
		return 137
	}
	return c.ExitCode
}

// endCause is why a container ended, as far as anyone saw.
func endCause(c pod.Container) pod.Cause {
	switch {
	case c.EndCause != "":
		return c.EndCause
	case c.State == pod.RunGone:
		return pod.CauseUser
	default:
		return pod.CauseExit
	}
}

// wantsRestart applies the restart policy. It is about ends that a container came
// to by itself: one that was ended to be replaced is replaced.
func wantsRestart(policy corev1.RestartPolicy, kind pod.ContainerKind, c pod.Container) bool {
	switch {
	case c.EndCause == pod.CauseSource || c.EndCause == pod.CauseAgent:
		return true
	case policy == corev1.RestartPolicyNever:
		return false
	case policy == corev1.RestartPolicyOnFailure || kind == pod.KindInit:
		return exitCode(c) != 0
	default:
		return true
	}
}

func describeEnd(c pod.Container) string {
	switch {
	case c.Error != "":
		return c.Error
	case c.EndDetail != "":
		return c.EndDetail
	case c.OOMKilled:
		return fmt.Sprintf("killed for lack of memory, exit code %d", exitCode(c))
	default:
		return fmt.Sprintf("exit code %d", exitCode(c))
	}
}
