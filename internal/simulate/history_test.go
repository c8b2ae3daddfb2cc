package simulate

import (
	"fmt"
	"slices"
	"time"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
	"podstead.io/podstead/internal/store"
)

// transition is one row of history.
type transition struct {
	At        string    `db:"at"`
	UID       string    `db:"pod_uid"`
	Pod       string    `db:"pod"`
	Container string    `db:"container"`
	Machine   string    `db:"machine"`
	From      string    `db:"from"`
	Event     string    `db:"event"`
	To        string    `db:"to"`
	Cause     pod.Cause `db:"cause"`
	Detail    string    `db:"detail"`
	Attempt   int       `db:"attempt"`
}

// legal are all transitions there are, written down once more: the tables in
// internal/lifecycle must not be what judges them.
var legal = map[string][]string{
	"pod": {
		" submit Pending", "Pending run Running", "Pending recreate Pending", "Succeeded recreate Pending", "Failed recreate Pending",
		"Evicted recreate Pending", "Running recreate Running", "Pending succeed Succeeded", "Running succeed Succeeded", "Pending fail Failed",
		"Running fail Failed", "Pending evict Evicted", "Running evict Evicted", " delete Terminating", "Pending delete Terminating",
		"Running delete Terminating", "Succeeded delete Terminating", "Failed delete Terminating", "Evicted delete Terminating",
		"Terminating forget Gone", "Pending hold Pending", "Running hold Running", "Succeeded hold Succeeded", "Failed hold Failed",
		"Terminating hold Terminating",
	},
	"container": {
		" submit Waiting", "Waiting start Running", "Terminated start Running", "Running pause Paused", "Paused resume Running",
		"Waiting exit Terminated", "Running exit Terminated", "Paused exit Terminated", "Waiting vanish Terminated", "Running vanish Terminated",
		"Paused vanish Terminated", "Terminated restart Waiting", "Waiting hold Waiting",
	},
}

var causes = []pod.Cause{
	pod.CauseSource, pod.CauseUser, pod.CauseProbe, pod.CauseExit, pod.CauseOOM, pod.CauseEviction, pod.CauseReboot, pod.CauseAdmission,
	pod.CauseImage, pod.CauseRuntime, pod.CauseAgent,
}

func (w *world) history() (rows []transition) {
	err := w.agent.store.Read(w.t.Context(), func(t *store.ReadTx) error {
		return t.Select(&rows, `SELECT at, pod_uid, pod, container, machine, "from", event, "to", cause, detail, attempt FROM transitions ORDER BY rowid`)
	})
	w.must(err)
	return rows
}

// explain puts what the agent has on record into the trace of a simulation that
// failed.
func (w *world) explain() {
	if len(w.found) == 0 || w.agent == nil || w.gate.isDead() {
		return
	}
	for _, r := range w.history() {
		w.trace.add("record", fmt.Sprintf("%s %s/%s %s: %s -%s-> %s", r.At, r.Pod, r.Container, r.UID, r.From, r.Event, r.To), fmt.Sprintf("%s, %s, attempt %d", r.Cause, r.Detail, r.Attempt))
	}
	for _, l := range w.fake.Lives() {
		end := "runs"
		if !l.Ended.IsZero() {
			end = w.at(l.Ended)
		}
		w.trace.add("life", fmt.Sprintf("%s/%s %s %s attempt %d %v", l.Key, l.Container, l.UID, l.ID, l.Attempt, l.Args), fmt.Sprintf("by hand %t, %s to %s: %s %d", l.ByHand, w.at(l.Started), end, l.End, l.ExitCode))
	}
}

// checkHistory looks whether every transition is legal, follows from the one
// before, and is explained.
func (w *world) checkHistory() {
	type machine struct{ uid, container string }
	last := map[machine]transition{}
	for _, r := range w.history() {
		if !slices.Contains(legal[r.Machine], r.From+" "+r.Event+" "+r.To) {
			w.wrong("illegal transition %+v", r)
		}
		m := machine{r.UID, r.Container}
		if was, known := last[m]; known && was.To != r.From && !w.mayHaveMissed(was, r) {
			w.wrong("a transition does not start where the one before led to:\n        %+v\n        %+v", was, r)
		}
		last[m] = r
		if !slices.Contains(causes, r.Cause) || r.Detail == "" {
			w.wrong("a transition is not explained: %+v", r)
		}
	}
}

// mayHaveMissed reports whether there may be more between two transitions: the
// agent was away, or what it had recorded was lost. A person who starts a
// container anew has two of them run at a time.
func (w *world) mayHaveMissed(a, b transition) bool {
	if w.plan.has(actStart) {
		return true
	}
	if w.plan.has(actPowerCut) && (b.Event == "submit" || b.From == "Waiting") {
		return true // a part is lost; a pod whose removal was lost comes again under its old UID
	}
	if b.From == "Waiting" && slices.ContainsFunc(w.plan.Steps, func(s step) bool { return s.Fault != nil && s.Fault.Lie }) {
		return true // the runtime said that it had removed the container, which is found again
	}
	disturbed := slices.ContainsFunc(w.plan.Steps, func(s step) bool { return s.Act.disturbs() })
	return disturbed && a.Attempt < b.Attempt && b.From == "Waiting"
}

// truly are the causes that an end may be put down to.
var truly = map[runtimetest.End][]pod.Cause{
	runtimetest.EndExit:   {pod.CauseExit},
	runtimetest.EndOOM:    {pod.CauseOOM},
	runtimetest.EndHand:   {pod.CauseUser},
	runtimetest.EndAgent:  {pod.CauseSource, pod.CauseUser, pod.CauseAgent, pod.CauseRuntime},
	runtimetest.EndReboot: {pod.CauseReboot},
}

// judgeCauses looks whether the end of each process is on record, once, and put
// down to what really ended it. It leaves out those that the agent may not have
// seen, and those that it was about to end itself.
func (w *world) judgeCauses(lives []runtimetest.Life, list []wish) {
	ends := map[string][]pod.Cause{}
	of := func(uid, name string, attempt int) string { return fmt.Sprint(uid, " ", name, " ", attempt) }
	for _, r := range w.history() {
		if r.Event == "exit" || r.Event == "vanish" {
			key := of(r.UID, r.Container, r.Attempt)
			ends[key] = append(ends[key], r.Cause)
		}
	}
	for _, l := range lives {
		if l.Ended.IsZero() || l.ByHand || !w.noticed(l) || l.End != runtimetest.EndAgent && (w.cutLoose(l) || superseded(list, l)) {
			continue
		}
		got := ends[of(string(l.UID), l.Container, l.Attempt)]
		if len(got) != 1 || !slices.Contains(truly[l.End], got[0]) {
			w.wrong("%s/%s attempt %d ended at %s by %s, and that is put down to %v", l.Key, l.Container, l.Attempt, w.at(l.Ended), l.End, got)
		}
	}
}

// noticed reports whether the agent must know what ended a process: nothing was
// wrong then, or never anything that keeps it from looking. Of a reboot it has
// to have known for a while that the process ran.
func (w *world) noticed(l runtimetest.Life) bool {
	switch {
	case w.plan.has(actStart, actPowerCut): // one attempt may run twice; what was recorded may be lost
		return false
	case l.End == runtimetest.EndReboot:
		return !w.plan.has(actFull, actFault, actHung, actStopped) && l.Ended.Sub(l.Started) > 2*syncFrequency
	default:
		return w.undisturbed(l.Started.Add(-settles), l.Ended.Add(promptly)) ||
			!w.plan.has(actMute, actStreams, actCrash, actRestart, actReboot, actFull, actFault, actHung, actStopped)
	}
}

// aMoment is the longest that the news of something is under way.
const aMoment = 300 * time.Millisecond

// cutLoose reports whether the sandbox of a process ended before it, or just
// after: the agent may have been about to end it, too.
func (w *world) cutLoose(l runtimetest.Life) bool {
	return slices.ContainsFunc(w.fake.Lives(), func(i runtimetest.Life) bool {
		return i.Kind == pod.KindSandbox && i.SandboxID == l.SandboxID && !i.Ended.IsZero() &&
			i.Ended.After(l.Started) && i.Ended.Before(l.Ended.Add(aMoment)) && l.End != runtimetest.EndReboot
	})
}

// superseded reports whether the agent had been asked for something else by the
// time that a process ended.
func superseded(list []wish, l runtimetest.Life) bool {
	l.Ended = l.Ended.Add(aMoment)
	return madeAnew(list, l) || slices.ContainsFunc(list, func(n wish) bool {
		return !n.allows(l) && !n.Made.After(l.Ended) && relevant(list, n, l)
	})
}
