package simulate

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

func contextOf(t *testing.T) (context.Context, context.CancelFunc) {
	return context.WithCancel(t.Context())
}

// checkAlways is what must hold whatever happens.
func (w *world) checkAlways() {
	for _, v := range w.fake.Violations() {
		w.wrong("two at a time: %s", v)
	}
}

// checkPromises looks whether the agent, started again, still wants what it
// acknowledged over HTTP.
func (w *world) checkPromises() {
	order, pods := w.wishes.snapshot()
	for _, key := range order {
		list := pods[key]
		last := list[len(list)-1]
		if last.Acked.IsZero() || static2(list) {
			continue
		}
		d, err := w.agent.store.Pod(w.t.Context(), key)
		switch {
		case w.gate.isDead():
			return
		case err != nil && !errors.Is(err, pod.NotFound):
			w.wrong("%s can't be read: %v", key, err)
		case last.Shape == nil && err == nil && d.Deletion == nil:
			w.wrong("%s was withdrawn, and is wanted", key)
		case last.Shape != nil && (err != nil || d.Deletion != nil):
			w.wrong("%s was acknowledged, and is not wanted: %v", key, err)
		case last.Shape != nil && d.Hash != last.set.Pods[0].Hash:
			w.wrong("%s was acknowledged, and an older one is wanted", key)
		}
	}
}

func static2(list []wish) bool {
	return slices.ContainsFunc(list, func(n wish) bool { return n.Shape != nil && n.Shape.File })
}

// checkSettled is what holds once nothing has been wrong for long enough.
func (w *world) checkSettled() {
	if w.agent == nil {
		w.wrong("no agent runs")
		return
	}
	order, pods := w.wishes.snapshot()
	for _, key := range order {
		list := pods[key]
		last := list[len(list)-1]
		switch {
		case last.Acked.IsZero():
			w.wrong("%s: the last wish is not acknowledged", key)
		case last.Shape == nil:
			w.checkGone(key)
		default:
			w.checkRuns(key, *last.Shape)
		}
	}
	w.checkHistory()
}

// checkGone looks whether anything is left of a pod.
func (w *world) checkGone(key pod.Key) {
	if _, err := w.agent.store.Pod(w.t.Context(), key); !errors.Is(err, pod.NotFound) {
		w.wrong("%s is not forgotten: %v", key, err)
	}
	for _, b := range w.fake.Sandboxes() {
		if b.Key == key {
			w.wrong("%s: sandbox %s is left", key, b.ID)
		}
	}
	for _, c := range w.fake.Containers() {
		if c.Key == key {
			w.wrong("%s: container %s is left", key, c.Name)
		}
	}
}

// checkRuns looks whether a wanted pod is as its shape has it.
func (w *world) checkRuns(key pod.Key, s shape) {
	d, err := w.agent.store.Pod(w.t.Context(), key)
	if err != nil {
		w.wrong("%s is not wanted: %v", key, err)
		return
	}
	statuses := slices.Concat(d.Status.InitContainerStatuses, d.Status.ContainerStatuses)
	live := map[string]pod.Container{}
	for _, c := range w.fake.Live(d.UID, "") {
		live[c.Container] = c
		if !w.fake.Connected(c.ID) {
			w.wrong("%s/%s has no network", key, c.Container)
		}
	}
	for _, c := range w.fake.Containers() {
		_, _, wanted := s.find(c.Container)
		unwanted := !wanted && len(live) > 0 // a pod that has ended keeps what there is, for its logs
		if c.Key == key && (c.UID != d.UID || unwanted) {
			w.wrong("%s: container %s is left", key, c.Name)
		}
	}
	w.checkSandbox(key, s, len(live) > 0)
	lives := slices.DeleteFunc(w.livesOf(key), func(l runtimetest.Life) bool { return l.UID != d.UID })
	for _, c := range s.Containers {
		w.checkContainer(key, s, c, live[c.Name], lives)
	}
	for _, st := range statuses {
		c, runs := live[st.Name]
		if runs != (st.State.Running != nil) {
			w.wrong("%s/%s: it runs is %t, and its status says %+v", key, st.Name, runs, st.State)
		}
		if runs && int(st.RestartCount) != c.Attempt {
			w.wrong("%s/%s is attempt %d, and its status counts %d restarts", key, st.Name, c.Attempt, st.RestartCount)
		}
	}
	if len(live) > 0 && d.State != pod.StateRunning {
		w.wrong("%s runs, and its state is %s", key, d.State)
	}
}

// checkSandbox allows a pod that has ended to be without one.
func (w *world) checkSandbox(key pod.Key, s shape, runs bool) {
	var boxes []pod.Sandbox
	for _, b := range w.fake.Sandboxes() {
		if b.Key == key {
			boxes = append(boxes, b)
		}
	}
	if len(boxes) > 1 || runs && len(boxes) == 0 {
		w.wrong("%s has %d sandboxes", key, len(boxes))
	}
	if len(boxes) == 0 {
		return
	}
	for _, l := range w.fake.Lives() {
		if l.ID == boxes[0].InfraID && l.Ended.IsZero() && l.Hostname != s.hostname() {
			w.wrong("%s is called %s, and wants to be %s", key, l.Hostname, s.hostname())
		}
	}
}

// checkContainer goes by the restart policy. What must run runs; what may have
// ended may have done so only by itself.
func (w *world) checkContainer(key pod.Key, s shape, c container, live pod.Container, lives []runtimetest.Life) {
	last := runtimetest.Life{}
	current := false
	for _, l := range lives {
		if l.Container == c.Name && slices.Equal(l.Args, c.args()) {
			if l.UID != last.UID || l.Attempt >= last.Attempt { // people start old ones too
				last = l
			}
			current = current || l.ID == live.ID
		}
	}
	switch {
	case live.ID != "" && current:
	case live.ID != "":
		w.wrong("%s/%s runs as another version than %v", key, c.Name, c.args())
	case s.Policy == corev1.RestartPolicyAlways:
		w.wrong("%s/%s does not run", key, c.Name)
	case s.Policy == corev1.RestartPolicyNever && (initFailed(lives, last) || w.broken(key, c.Name)):
	case last.End == runtimetest.EndAgent:
		w.wrong("%s/%s was ended by the agent, and does not run: %+v", key, c.Name, last)
	case s.Policy == corev1.RestartPolicyOnFailure && last.ID != "" && last.ExitCode == 0:
	case s.Policy == corev1.RestartPolicyOnFailure:
		w.wrong("%s/%s does not run, and has not succeeded: %+v", key, c.Name, last)
	case last.ID == "" && !w.mayHaveFailed(key, c):
		w.wrong("%s/%s never ran", key, c.Name)
	}
}

// initFailed reports whether an init container failed after the process ended:
// the pod was made anew, and is given up.
func initFailed(lives []runtimetest.Life, last runtimetest.Life) bool {
	return slices.ContainsFunc(lives, func(l runtimetest.Life) bool {
		return l.Kind == pod.KindInit && l.UID == last.UID && l.ExitCode != 0 && !l.Started.Before(ended(last))
	})
}

// mayHaveFailed reports whether a container of a pod that is never restarted may
// have been given up before it ran.
func (w *world) mayHaveFailed(key pod.Key, c container) bool {
	for _, l := range w.livesOf(key) {
		if l.Kind == pod.KindInit && (l.ExitCode != 0 || l.End != runtimetest.EndExit) {
			return true
		}
	}
	return w.broken(key, c.Name)
}

// livesOf are the runs of a pod's containers, of all its incarnations.
func (w *world) livesOf(key pod.Key) (out []runtimetest.Life) {
	for _, l := range w.fake.Lives() {
		if l.Key == key && l.Kind != pod.KindSandbox {
			out = append(out, l)
		}
	}
	return out
}

// rest is a long time in which nothing happens, and nothing may be written.
func (w *world) rest(d time.Duration) {
	w.fake.ForgetCalls()
	_, before := w.gate.counts()
	from := readMark(w.gate.path)
	w.until(time.Now().Add(d))
	_, after := w.gate.counts()
	if after != before || readMark(w.gate.path) != from {
		w.wrong("%d writes at rest", after-before)
	}
	if calls := w.fake.Calls(changing...); len(calls) > 0 {
		w.wrong("%d calls at rest, the first: %+v", len(calls), calls[0])
	}
}
