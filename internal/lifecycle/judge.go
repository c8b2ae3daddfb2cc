package lifecycle

import (
	"slices"

	"podstead.io/podstead/internal/pod"
)

// verdict is what one container calls for.
type verdict int

const (
	fine    verdict = iota // it runs
	done                   // it ended and is not to be restarted
	waiting                // a back-off, or a turn, has to pass first
	due                    // it has to be started
)

// step is a container with its verdict. With due, stop names the live attempt
// that has to end first, and created an attempt that only has to be started.
type step struct {
	dc      pod.DesiredContainer
	verdict verdict
	last    *pod.Container
	stop    *pod.Container
	cause   pod.Cause
	detail  string
	created *pod.Container
	attempt int
}

// Why a live attempt is ended to make another.
const (
	specChanged  = "its specification changed"
	sandboxAgain = "the sandbox was started again"
	supersededBy = "a later attempt took its place"
)

// judge gives every container its verdict. Init containers run one after the
// other and before the rest, and no more once the rest has ended for good.
func (p *planner) judge() []step {
	initDone := p.initPassed()
	var steps []step
	if p.ended() {
		for _, dc := range p.want.Containers {
			steps = append(steps, step{dc: dc, verdict: done, last: p.latest(dc.Name)})
		}
		return steps
	}
	blocked := false
	for _, dc := range p.want.Containers {
		s := step{dc: dc, last: p.latest(dc.Name)}
		switch {
		case dc.Kind == pod.KindInit && initDone:
			s.verdict = done
		case blocked:
			s.verdict = waiting
			p.stopEarly(&s)
		default:
			p.judgeOne(&s)
			blocked = dc.Kind == pod.KindInit && s.verdict != done
		}
		steps = append(steps, s)
	}
	return steps
}

// ended reports whether every application container has ended and is not to be
// restarted, or an init container has failed for good. What became of the
// sandbox changes nothing about it.
func (p *planner) ended() bool {
	all := true
	for _, dc := range p.want.Containers {
		c := p.latest(dc.Name)
		over := c != nil && c.Revision == dc.Revision && !c.State.Live() && c.State != pod.RunCreated &&
			!wantsRestart(p.want.Pod.Spec.RestartPolicy, dc.Kind, *c)
		switch {
		case dc.Kind == pod.KindInit && over && exitCode(*c) != 0:
			return true
		case dc.Kind == pod.KindContainer:
			all = all && over
		}
	}
	return all
}

// stopEarly ends an application container that runs while init containers have
// to run again: its sandbox was made anew under it.
func (p *planner) stopEarly(s *step) {
	if s.last != nil && s.last.State.Live() {
		s.stop, s.cause, s.detail = s.last, pod.CauseAgent, sandboxAgain
	}
}

// initPassed reports whether init containers have nothing to do any more: an
// application container was started in the sandbox as it is now.
func (p *planner) initPassed() bool {
	for _, dc := range p.want.Containers {
		if dc.Kind != pod.KindContainer {
			continue
		}
		if c := p.latest(dc.Name); c != nil && !c.StartedAt.IsZero() && p.inSandbox(*c) {
			return true
		}
	}
	return false
}

// inSandbox reports whether the container was started in the current run of the
// current sandbox. Containers of an earlier run have lost their network. A later
// run than is known is one that began and was not looked at yet.
func (p *planner) inSandbox(c pod.Container) bool {
	if p.sandbox == nil || c.SandboxID != p.sandbox.ID {
		return false
	}
	return c.SandboxRun > p.sandbox.Run || p.sandbox.State.Live() && c.SandboxRun == p.sandbox.Run
}

// unseen reports whether the sandbox runs though that was not looked at yet: a
// container was started in it.
func (p *planner) unseen() bool {
	return p.sandbox != nil && !p.sandbox.State.Live() &&
		slices.ContainsFunc(p.seen.Containers, func(c pod.Container) bool { return c.State.Live() && p.inSandbox(c) })
}

func (p *planner) judgeOne(s *step) {
	c := s.last
	switch {
	case c == nil:
		p.dueNow(s, max(s.dc.Attempt, 0))
	case c.Revision != s.dc.Revision:
		// One that was created has run before, or it were set aside. A start of it
		// that was cut short may be carried out yet.
		if c.State.Live() || c.State == pod.RunCreated {
			s.stop = c
		}
		p.again(s, pod.CauseSource, specChanged)
	case c.State.Live() && p.inSandbox(*c):
		s.verdict = fine
		p.settle(s.dc.Name, pod.BackoffCreate)
	case c.State.Live():
		s.stop = c
		p.again(s, pod.CauseAgent, sandboxAgain)
	case c.State == pod.RunCreated:
		p.dueNow(s, c.Attempt)
		s.created = c
	case s.dc.Kind == pod.KindInit && exitCode(*c) == 0 && p.inSandbox(*c):
		s.verdict = done
	case s.dc.Kind == pod.KindInit && exitCode(*c) == 0:
		p.again(s, pod.CauseAgent, sandboxAgain)
	case !wantsRestart(p.want.Pod.Spec.RestartPolicy, s.dc.Kind, *c):
		s.verdict = done
	default:
		p.afterEnd(s)
	}
}

// afterEnd restarts a container that ended, accounting for the end once: the
// reserved attempt tells whether that was done. One whose sandbox was removed
// under it did not crash, though that is not known yet when it is seen to end.
func (p *planner) afterEnd(s *step) {
	c := s.last
	if !slices.ContainsFunc(p.seen.Sandboxes, func(b pod.Sandbox) bool { return b.ID == c.SandboxID }) {
		p.again(s, endCause(*c), describeEnd(*c))
		return
	}
	if s.dc.Attempt <= c.Attempt {
		if b, changed := crashed(FindBackoff(p.want.Backoffs, s.dc.Name, pod.BackoffCrash), *c, p.now); changed {
			p.out.Backoffs = append(p.out.Backoffs, b)
			p.again(s, endCause(*c), describeEnd(*c))
			if left := Left(b, p.now); left > 0 {
				s.verdict = waiting
				p.lookAgain(p.now.Add(left))
			}
			return
		}
	}
	p.again(s, endCause(*c), describeEnd(*c))
	if p.held(s.dc.Name, pod.BackoffCrash) {
		s.verdict = waiting
	}
}

// again makes another attempt due, reserving its number and recording the
// restart unless an earlier decision did.
func (p *planner) again(s *step, cause pod.Cause, detail string) {
	s.cause, s.detail = cause, detail
	n := s.dc.Attempt
	if n <= s.last.Attempt {
		n = s.last.Attempt + 1
		p.useAttempt(s.dc.Name, n)
		p.forgive(*s.last)
		if !s.last.State.Live() && s.last.State != pod.RunCreated {
			p.out.Transitions = append(p.out.Transitions, p.restart(s.dc.Name, cause, detail, n))
		}
	}
	p.dueNow(s, n)
}

// forgive forgets the crashes before a run that was well for long enough, unless
// it was accounted for as a crash itself.
func (p *planner) forgive(c pod.Container) {
	end := c.FinishedAt
	if end.IsZero() {
		end = p.now // it lives, or nobody saw its end
	}
	counted := FindBackoff(p.out.Backoffs, c.Container, pod.BackoffCrash).Failures > 0
	if wasWell(c, end) && !counted {
		p.settle(c.Container, pod.BackoffCrash)
	}
}

func (p *planner) dueNow(s *step, attempt int) {
	s.attempt = attempt
	s.verdict = due
	if p.held(s.dc.Name, pod.BackoffImage) || p.held("", pod.BackoffVolume) || p.heldInSandbox(s.dc.Name) {
		s.verdict = waiting
	}
}

// heldInSandbox reports whether the container can't be created or started for
// now in the sandbox that there is. In one that is made anew it may be tried.
func (p *planner) heldInSandbox(container string) bool {
	return p.sandbox != nil && !p.sandboxFailed() && p.held(container, pod.BackoffCreate)
}

// sandboxFailed reports whether the sandbox that there is could not be started,
// and is to be made anew.
func (p *planner) sandboxFailed() bool {
	return p.sandbox != nil && !p.sandbox.State.Live() && !p.unseen() && FindBackoff(p.want.Backoffs, "", pod.BackoffSandbox).Failures > 0
}
