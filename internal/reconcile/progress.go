package reconcile

import (
	"sync"

	"podstead.io/podstead/internal/lifecycle"
)

// progress follows a plan, to tell when nothing of it is left to do but to wait
// for images.
type progress struct {
	mu       sync.Mutex
	actions  []lifecycle.Action
	finished []bool
	// ended has room for one signal that an action ended.
	ended chan struct{}
}

func follow(actions []lifecycle.Action) *progress {
	return &progress{actions: actions, finished: make([]bool, len(actions)), ended: make(chan struct{}, 1)}
}

func (p *progress) end(i int) {
	p.mu.Lock()
	p.finished[i] = true
	p.mu.Unlock()
	select {
	case p.ended <- struct{}{}:
	default:
	}
}

// onlyPulls reports whether every action that has not ended is a pull or waits
// for one.
func (p *progress) onlyPulls() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	left := false
	for i := range p.actions {
		if !p.finished[i] {
			left = true
			if !p.pulls(i) {
				return false
			}
		}
	}
	return left
}

func (p *progress) pulls(i int) bool {
	if p.finished[i] {
		return false
	}
	if p.actions[i].Op == lifecycle.OpEnsureImage {
		return true
	}
	for _, j := range p.actions[i].After {
		if p.pulls(j) {
			return true
		}
	}
	return false
}
