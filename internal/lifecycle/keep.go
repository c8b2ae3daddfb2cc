package lifecycle

import (
	"fmt"
	"slices"

	"podstead.io/podstead/internal/pod"
)

// keep makes a wanted pod run.
func (p *planner) keep() {
	steps := p.judge()
	if !slices.ContainsFunc(steps, func(s step) bool { return s.verdict != done }) {
		p.finish(steps)
		return
	}
	if p.out.Event == "" {
		p.notice(steps)
	}
	stuck := p.held("", pod.BackoffRemove)
	if stuck && len(p.stale) > 0 {
		return // what has to go first does not go
	}
	var removed []int
	var stops map[string][]int
	if stuck {
		p.standBack(steps)
	} else {
		removed = p.tidy()
		stops = p.stopOld(steps)
	}
	for _, s := range steps {
		removed = append(removed, stops[s.dc.Name]...)
	}
	start := slices.ContainsFunc(steps, func(s step) bool { return s.verdict == due })
	live := slices.ContainsFunc(steps, func(s step) bool { return s.verdict == fine })
	if !start && !live && p.sandbox != nil {
		return // nothing but waiting: leave the sandbox as it is
	}
	created, started, ok := p.needSandbox(removed)
	if !ok {
		return
	}
	for _, s := range steps {
		if s.verdict == due {
			p.start(s, stops[s.dc.Name], created, started)
		}
	}
}

// stopOld ends live attempts that another is to follow, by container name.
func (p *planner) stopOld(steps []step) map[string][]int {
	stops := map[string][]int{}
	for _, s := range steps {
		if s.stop != nil {
			i := p.stop(*s.stop, p.grace(), s.cause, s.detail)
			if s.stop.State.Live() && s.attempt > s.stop.Attempt { // else it is not known yet which is next
				t := p.restart(s.dc.Name, s.cause, s.detail, s.attempt)
				p.out.Actions[i].Then = &t
			}
			stops[s.dc.Name] = append(stops[s.dc.Name], i)
		}
		for _, c := range p.superseded(s) {
			cause, detail := p.whySuperseded(c, s.dc)
			i := p.stop(c, p.grace(), cause, detail)
			if s.last.State == pod.RunCreated { // it was made already, and waits for this one's end
				t := p.restart(s.dc.Name, cause, detail, s.attempt)
				p.out.Actions[i].Then = &t
			}
			stops[s.dc.Name] = append(stops[s.dc.Name], i)
		}
	}
	return stops
}

// whySuperseded is what the later attempt was made for.
func (p *planner) whySuperseded(c pod.Container, dc pod.DesiredContainer) (pod.Cause, string) {
	switch {
	case c.Revision != dc.Revision:
		return pod.CauseSource, specChanged
	case !p.inSandbox(c):
		return pod.CauseAgent, sandboxAgain
	default:
		return pod.CauseAgent, supersededBy
	}
}

// superseded are the live attempts but for the latest.
func (p *planner) superseded(s step) (live []pod.Container) {
	for _, c := range p.attempts[s.dc.Name] {
		if c.State.Live() && c.ID != s.last.ID && !p.isStale(c.SandboxID) {
			live = append(live, c)
		}
	}
	return live
}

// standBack has those containers wait of which another attempt would have to be
// stopped first, which can't be done now.
func (p *planner) standBack(steps []step) {
	for i := range steps {
		s := &steps[i]
		if s.verdict == due && (s.stop != nil || len(p.superseded(*s)) > 0) {
			s.verdict = waiting
		}
	}
}

func (p *planner) isStale(sandboxID string) bool {
	return slices.ContainsFunc(p.stale, func(b pod.Sandbox) bool { return b.ID == sandboxID })
}

// start adds the chain image → create → start, joined to the sandbox's.
func (p *planner) start(s step, stops []int, created, started int) {
	after := func(list ...int) []int {
		return slices.DeleteFunc(list, func(i int) bool { return i < 0 })
	}
	if p.volumes < 0 {
		p.volumes = p.add(Action{Op: OpPrepareVolumes})
	}
	begin := Action{Op: OpStartContainer, Container: s.dc.Name, Attempt: s.attempt, Cause: s.cause, Detail: s.detail}
	ready := p.volumes
	if s.created != nil {
		begin.ID = s.created.ID
	} else {
		image := p.add(Action{Op: OpEnsureImage, Container: s.dc.Name})
		sandbox := ""
		if created < 0 {
			sandbox = p.sandbox.ID
		}
		ready = p.add(Action{Op: OpCreateContainer, Container: s.dc.Name, ID: sandbox, Attempt: s.attempt, Cause: s.cause, Detail: s.detail, After: append(after(created, image, p.volumes), p.cleared[s.dc.Name]...)})
	}
	begin.After = append(after(ready, started), stops...)
	running := p.add(begin)
	// The attempt before the new one is kept for its logs.
	before := slices.IndexFunc(p.attempts[s.dc.Name], func(c pod.Container) bool { return c.Attempt < s.attempt })
	if before >= 0 {
		for _, old := range p.attempts[s.dc.Name][before+1:] {
			if old.State != pod.RunGone && !p.isStale(old.SandboxID) {
				p.add(Action{Op: OpRemoveContainer, Container: old.Container, ID: old.ID, Attempt: old.Attempt, Cause: pod.CauseAgent, Detail: "superseded", After: []int{running}})
			}
		}
	}
}

// settle ends a back-off: the call failed and did its work all the same, or what
// failed was well since.
func (p *planner) settle(container string, kind pod.BackoffKind) {
	if FindBackoff(p.want.Backoffs, container, kind).Failures > 0 {
		p.out.Backoffs = append(p.out.Backoffs, pod.Backoff{Container: container, Kind: kind})
	}
}

// needSandbox plans whatever makes the sandbox run; created and started are the
// actions to wait for, −1 when that is the case already. Not ok: not now.
func (p *planner) needSandbox(removed []int) (created, started int, ok bool) {
	created, started = -1, -1
	if p.sandbox != nil && p.sandbox.State.Live() {
		p.settle("", pod.BackoffSandbox)
		return created, started, true
	}
	if p.held("", pod.BackoffSandbox) {
		return created, started, false
	}
	failures := FindBackoff(p.want.Backoffs, "", pod.BackoffSandbox).Failures
	cause, detail := p.sandboxLoss()
	if detail != "" && failures == 0 && p.out.Event == "" && !p.unseen() {
		p.event(EventRecreate, cause, detail)
	}
	if p.sandbox != nil && !p.sandboxFailed() {
		started = p.add(Action{Op: OpStartSandbox, ID: p.sandbox.ID, Attempt: p.sandbox.Attempt, Cause: cause, Detail: detail, After: removed})
		return created, started, true
	}
	attempt := 0
	for _, b := range p.seen.Sandboxes {
		attempt = max(attempt, b.Attempt+1)
	}
	if p.sandbox != nil {
		removed = append(removed, p.add(Action{Op: OpRemoveSandbox, ID: p.sandbox.ID, Attempt: p.sandbox.Attempt, Cause: pod.CauseRuntime, Detail: "it could not be started", After: removed}))
	}
	created = p.add(Action{Op: OpCreateSandbox, Attempt: attempt, Cause: cause, Detail: detail, After: removed})
	started = p.add(Action{Op: OpStartSandbox, Attempt: attempt, Cause: cause, Detail: detail, After: []int{created}})
	return created, started, true
}

// sandboxLoss says why a pod that had a sandbox needs another; no detail: it
// never had one.
func (p *planner) sandboxLoss() (pod.Cause, string) {
	for name := range p.attempts {
		if p.latest(name).EndCause == pod.CauseReboot {
			return pod.CauseReboot, "the machine was restarted"
		}
	}
	switch {
	case len(p.stale) > 0 && p.stale[0].Revision != p.want.Revision:
		return pod.CauseSource, "pod-wide settings changed"
	case p.sandbox != nil && !p.sandbox.StartedAt.IsZero():
		return pod.CauseExit, "the sandbox ended"
	case p.sandbox == nil && p.want.State != pod.StateNone && p.want.State != pod.StatePending:
		return pod.CauseUser, "the sandbox was removed"
	}
	return pod.CauseSource, ""
}

// discard removes a container that is not to be started any more. An answer that
// was lost may have started it nonetheless, hence a grace and an intent.
func (p *planner) discard(c pod.Container) int {
	const detail = "it was replaced before it was started"
	p.out.Intents = append(p.out.Intents, pod.Intent{ContainerID: c.ID, Cause: pod.CauseSource, Detail: detail})
	return p.add(Action{Op: OpRemoveContainer, Container: c.Container, ID: c.ID, Attempt: c.Attempt, Grace: p.grace(), MayRun: true, Cause: pod.CauseSource, Detail: detail})
}

// tidy removes stale sandboxes, containers that will not be started, and those
// that are not in the manifest any more.
func (p *planner) tidy() (removed []int) {
	inside := map[string][]int{} // sandbox → what removes unused containers in it
	for name, list := range p.unused {
		for _, c := range list {
			i := p.discard(c)
			p.cleared[name] = append(p.cleared[name], i)
			inside[c.SandboxID] = append(inside[c.SandboxID], i)
		}
	}
	for _, b := range p.stale {
		cause, detail := pod.CauseSource, "pod-wide settings changed"
		if b.Revision == p.want.Revision {
			cause, detail = pod.CauseAgent, "another sandbox took its place"
		}
		i := p.removeSandbox(b, p.grace(), cause, detail)
		p.out.Actions[i].After = append(p.out.Actions[i].After, inside[b.ID]...)
		removed = append(removed, i)
	}
	for _, c := range p.seen.Containers {
		if c.State == pod.RunGone || p.sandbox == nil || c.SandboxID != p.sandbox.ID {
			continue
		}
		if !slices.ContainsFunc(p.want.Containers, func(d pod.DesiredContainer) bool { return d.Name == c.Container }) {
			p.removeContainer(c, p.grace(), pod.CauseSource, "it was removed from the manifest")
		}
	}
	return removed
}

// notice fires the events that the verdicts amount to.
func (p *planner) notice(steps []step) {
	for _, s := range steps {
		switch p.want.State {
		case pod.StatePending:
			if s.dc.Kind != pod.KindContainer {
				continue
			}
			switch {
			case s.verdict == fine:
				p.event(EventRun, pod.CauseSource, fmt.Sprintf("container %s runs", s.dc.Name))
				return
			case s.last != nil && !s.last.StartedAt.IsZero() && p.inSandbox(*s.last):
				// It ended before it was seen to run: a crash loop is no pending pod.
				p.event(EventRun, pod.CauseSource, fmt.Sprintf("container %s ran", s.dc.Name))
				return
			}
		case pod.StateSucceeded, pod.StateFailed:
			if s.verdict == due {
				cause, detail := s.cause, s.detail
				switch {
				case s.last == nil:
					cause, detail = pod.CauseSource, "it was added to the manifest"
				case s.created != nil: // for the edit, and then the row was lost
					cause, detail = pod.CauseSource, specChanged
				}
				p.event(EventRecreate, cause, fmt.Sprintf("container %s: %s", s.dc.Name, detail))
				return
			}
		}
	}
}

// finish ends a pod none of whose containers is to run any more. Its dead
// containers stay for their logs; its sandbox gives up its address.
func (p *planner) finish(steps []step) {
	stuck := p.held("", pod.BackoffRemove)
	for _, c := range p.seen.Containers {
		if c.State.Live() && !stuck {
			p.stop(c, p.grace(), pod.CauseAgent, "the pod has ended")
		}
	}
	for _, b := range p.seen.Sandboxes {
		if b.State.Live() && !stuck {
			p.add(Action{Op: OpStopSandbox, ID: b.InfraID, Attempt: b.Attempt, Cause: pod.CauseAgent, Detail: "the pod has ended"})
		}
	}
	if p.want.State != pod.StatePending && p.want.State != pod.StateRunning {
		return
	}
	for _, s := range steps {
		if s.last != nil && exitCode(*s.last) != 0 {
			p.event(EventFail, endCause(*s.last), fmt.Sprintf("container %s: %s", s.dc.Name, describeEnd(*s.last)))
			return
		}
	}
	p.event(EventSucceed, pod.CauseExit, "every container completed")
}
