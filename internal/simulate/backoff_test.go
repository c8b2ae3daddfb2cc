package simulate

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

// Kubelet's figures once more: what judges the agent must not be its own code.
const (
	firstDelay = 10 * time.Second
	lastDelay  = 5 * time.Minute
	healthy    = 10 * time.Minute
)

// delay is how long a container stays down that failed so often in a row.
func delay(failures int) time.Duration {
	if failures < 2 {
		return 0
	}
	d := firstDelay
	for range failures - 2 {
		d = min(2*d, lastDelay)
	}
	return d
}

// crash reports whether a process ended by its own doing.
func crash(l runtimetest.Life) bool {
	return l.End == runtimetest.EndOOM || l.End == runtimetest.EndExit
}

func (p plan) has(acts ...act) bool {
	return slices.ContainsFunc(p.Steps, func(s step) bool { return slices.Contains(acts, s.Act) })
}

// judgeRestarts goes over the attempts at each container: they are numbered, and
// between them lies the back-off, no less, and while nothing is wrong no more.
func (w *world) judgeRestarts(lives []runtimetest.Life, list []wish) {
	type name struct {
		uid       types.UID
		container string
	}
	attempts := map[name][]runtimetest.Life{}
	for _, l := range lives {
		if !l.ByHand {
			n := name{l.UID, l.Container}
			attempts[n] = append(attempts[n], l)
		}
	}
	for _, list2 := range attempts {
		w.judgeNumbers(list2)
		if list2[0].Kind == pod.KindContainer && !w.plan.has(actClock, actPowerCut, actStart) {
			w.judgeGaps(list2, list)
		}
	}
}

func (w *world) judgeNumbers(lives []runtimetest.Life) {
	for i := 1; i < len(lives); i++ {
		a, b := lives[i-1], lives[i]
		lost := slices.ContainsFunc(w.cuts, func(at time.Time) bool { return !at.Before(a.Started) && at.Before(b.Started) })
		unseen := w.plan.Late && (a.Ended.Sub(a.Started) < time.Second || w.plan.has(actCrash, actRestart)) // nobody knew that it was started
		if b.ID != a.ID && b.Attempt <= a.Attempt && !lost && !(unseen && b.Attempt == a.Attempt) {
			w.wrong("%s/%s: attempt %d comes after %d", a.Key, a.Container, b.Attempt, a.Attempt)
		}
	}
}

// judgeGaps counts failures in a row: at least those of one version, at most all
// of the pod's.
func (w *world) judgeGaps(lives []runtimetest.Life, list []wish) {
	least, most := 0, 0
	for i, l := range lives {
		if i > 0 && (!slices.Equal(l.Args, lives[i-1].Args) || l.SandboxID != lives[i-1].SandboxID) {
			least = 0 // an edit, of it or of all of the pod
		}
		if ended(l).Sub(l.Started) >= healthy {
			least, most = 0, 0
		}
		most++
		if !crash(l) || w.lostNetwork(l) || !restarts(list, l) {
			continue
		}
		least++
		var next *runtimetest.Life
		if i+1 < len(lives) {
			next = &lives[i+1]
		}
		if next != nil && slices.Equal(next.Args, l.Args) && next.Started.Sub(l.Ended) < delay(least) {
			w.wrong("%s/%s ended at %s, %d times in a row, and was started again after %s", l.Key, l.Container, w.at(l.Ended), least, next.Started.Sub(l.Ended))
		}
		w.judgeDelay(l, next, list, l.Ended.Add(delay(most)+longest(list)+promptly))
	}
}

// judgeDelay: while nothing is wrong, what is wanted runs again by then. As with
// kubelet, it has to wait for what is being stopped in the same pod.
func (w *world) judgeDelay(l runtimetest.Life, next *runtimetest.Life, list []wish, due time.Time) {
	if next != nil && !next.Started.After(due) || due.After(time.Now()) || !w.undisturbed(l.Started.Add(-settles), due) || w.lostNetwork(l) {
		return
	}
	wanted := !slices.ContainsFunc(list, func(n wish) bool {
		return !n.allows(l) && n.Made.Before(due) && relevant(list, n, l)
	})
	policy := restarts(list, l)
	if wanted && policy && !w.broken(l.Key, l.Container) {
		w.wrong("%s/%s ended at %s, and does not run again by %s", l.Key, l.Container, w.at(l.Ended), w.at(due))
	}
}

func restarts(list []wish, l runtimetest.Life) bool {
	for _, n := range list {
		if n.Shape != nil {
			return n.Shape.Policy == corev1.RestartPolicyAlways || n.Shape.Policy == corev1.RestartPolicyOnFailure && l.ExitCode != 0
		}
	}
	return false
}

func (w *world) broken(key pod.Key, name string) bool {
	for _, s := range w.plan.Steps {
		for _, script := range s.Scripts {
			if script.Broken != "" && keyOf(s.Slot, s.File) == key && s.Container == name {
				return true
			}
		}
	}
	return false
}

// lostNetwork reports whether the sandbox of a process ended around the end of
// it: it is not the process that failed then.
func (w *world) lostNetwork(l runtimetest.Life) bool {
	return slices.ContainsFunc(w.fake.Lives(), func(i runtimetest.Life) bool {
		return i.Kind == pod.KindSandbox && i.Key == l.Key && !i.Ended.IsZero() &&
			i.Ended.After(l.Started) && i.Ended.Before(ended(l).Add(delay(20)+promptly))
	})
}
