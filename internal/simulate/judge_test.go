package simulate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

// promptly is what the agent and the runtime may take on top of what a pod asks
// for, while nothing is wrong.
const promptly = 15 * time.Second

// judge goes over all that ran, and when, and compares that with what was
// wanted.
func (w *world) judge() {
	w.settled()
	_, pods := w.wishes.snapshot()
	w.stats.Containers += len(w.fake.Lives())
	w.stats.Events += len(w.fake.Reported())
	for key, list := range pods {
		lives := w.livesOf(key)
		w.judgeAlone(lives)
		w.judgeWanted(lives, list)
		w.judgeNeed(lives, list)
		w.judgeRestarts(lives, list)
		if w.agent != nil {
			w.judgeCauses(lives, list)
		}
	}
}

// undisturbed reports whether nothing was wrong in that time.
func (w *world) undisturbed(from, to time.Time) bool {
	return !slices.ContainsFunc(w.spans, func(s span) bool { return s.from.Before(to) && from.Before(s.to) })
}

func ended(l runtimetest.Life) time.Time {
	if l.Ended.IsZero() {
		return time.Now()
	}
	return l.Ended
}

// judgeAlone: at most one of a container at a time, whichever incarnation of the
// pod it is of. What people start is theirs.
func (w *world) judgeAlone(lives []runtimetest.Life) {
	for i, a := range lives {
		for _, b := range lives[i+1:] {
			if a.Container == b.Container && !a.ByHand && !b.ByHand && a.ID != b.ID && b.Started.Before(ended(a)) {
				w.wrong("two at a time: %s/%s %s from %s and %s from %s", a.Key, a.Container, a.ID, w.at(a.Started), b.ID, w.at(b.Started))
			}
		}
	}
}

// allows reports whether a wish is for what that process is.
func (n wish) allows(l runtimetest.Life) bool {
	if n.Shape == nil {
		return false
	}
	c, _, found := n.Shape.find(l.Container)
	return found && slices.Equal(c.args(), l.Args)
}

// longest is the longest grace that anyone gave the pod.
func longest(list []wish) (grace time.Duration) {
	for _, n := range list {
		grace = max(grace, n.Grace)
		if n.Shape != nil {
			grace = max(grace, time.Duration(n.Shape.Grace)*time.Second)
		}
	}
	return grace
}

// judgeWanted: nothing runs that is not wanted beyond its grace.
func (w *world) judgeWanted(lives []runtimetest.Life, list []wish) {
	for _, l := range lives {
		if l.ByHand {
			continue
		}
		for i, n := range list {
			if n.Acked.IsZero() || n.allows(l) || n.Acked.Before(l.Started) && i+1 < len(list) {
				continue
			}
			from := n.Acked
			if from.Before(l.Started) {
				from = l.Started
			}
			until := time.Now() // from when on it may run again
			for _, later := range list[i+1:] {
				if later.allows(l) {
					until = later.Made
					break
				}
			}
			due := from.Add(longest(list) + promptly)
			if due.Before(until) && due.Before(ended(l)) && w.undisturbed(from.Add(-settles), due) {
				w.wrong("%s/%s %v runs until %s, and was not wanted since %s", l.Key, l.Container, l.Args, w.at(ended(l)), w.at(from))
			}
		}
	}
}

// judgeNeed: the agent ends nothing without need.
func (w *world) judgeNeed(lives []runtimetest.Life, list []wish) {
	all := w.fake.Lives()
	for _, l := range lives {
		if l.End != runtimetest.EndAgent || l.ByHand || l.Kind == pod.KindInit && !kept(list) {
			continue // a pod whose containers have ended for good needs no more of its init containers
		}
		unwanted := slices.ContainsFunc(list, func(n wish) bool { return !n.Made.After(l.Ended) && !n.allows(l) && relevant(list, n, l) })
		elsewhere := madeAnew(list, l)
		lost := slices.ContainsFunc(all, func(i runtimetest.Life) bool {
			return i.Kind == pod.KindSandbox && i.SandboxID == l.SandboxID && !i.Ended.IsZero() && i.Ended.Before(l.Ended) && !i.Ended.Before(l.Started)
		})
		stray := slices.ContainsFunc(all, func(o runtimetest.Life) bool { return o.Key == l.Key && o.ByHand && o.Started.Before(l.Ended) })
		if !unwanted && !elsewhere && !lost && !stray {
			w.wrong("%s/%s %s attempt %d, from %s, was ended needlessly at %s", l.Key, l.Container, l.ID, l.Attempt, w.at(l.Started), w.at(l.Ended))
		}
	}
}

// kept reports whether the pod is restarted whatever happens.
func kept(list []wish) bool {
	return !slices.ContainsFunc(list, func(n wish) bool { return n.Shape != nil && n.Shape.Policy != corev1.RestartPolicyAlways })
}

// relevant leaves out wishes that were made up for well before the process
// began. It may have been asked for a while before that.
func relevant(list []wish, n wish, l runtimetest.Life) bool {
	return !slices.ContainsFunc(list, func(later wish) bool {
		return later.Made.After(n.Made) && !later.Acked.IsZero() && later.Acked.Before(l.Started.Add(-promptly))
	})
}

// madeAnew reports whether something about the pod as a whole changed since the
// process was asked for.
func madeAnew(list []wish, l runtimetest.Life) bool {
	as := map[string]bool{}
	for _, n := range list {
		if n.Shape != nil && !n.Made.After(l.Ended) && relevant(list, n, l) {
			as[n.Shape.whole()] = true
		}
	}
	return len(as) > 1
}
