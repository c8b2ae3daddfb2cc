package store

import "podstead.io/podstead/internal/pod"

// life is a run of a process and how far it has come.
type life struct {
	state   pod.RunState
	started stamp
}

func (l life) stage() int {
	switch l.state {
	case pod.RunCreated:
		return 0
	case pod.RunExited:
		return 2
	case pod.RunGone:
		return 3
	default: // running and paused alternate; unknown may turn out to be either
		return 1
	}
}

// late reports whether what was seen is an earlier state of the thing than what
// is known: less far in the same run, or of another run and asked for earlier.
// Two runs are told apart by when they started, and not put in order by it.
func (o *observer) late(id string, seen, known life) bool {
	switch {
	case seen.started.sameStart(known.started):
		return seen.stage() < known.stage()
	case seen.started == "" || known.started == "":
		return seen.started == ""
	default:
		return o.asked.Before(o.store.order.rows[id].asked)
	}
}

// taken notes, once it is committed, that a report was taken.
func (o *observer) taken(id string, changed bool) {
	o.t.onCommit(func() { o.store.order.note(id, o.asked, changed) })
}

// endedByReboot reports whether what ran before the machine was restarted did
// not run again since. Podman may call it created or exited then.
func (o *observer) endedByReboot(old, seen life) bool {
	return o.facts.Rebooted && old.state.Live() && !seen.state.Live() && (seen.started == "" || seen.started.sameStart(old.started))
}

// rebootExitCode is what kubelet reports for a container whose end nobody saw.
const rebootExitCode = 137

// endAtReboot makes an end of what a reboot left behind. Podman 5 calls it exited
// with the code 0, though nobody saw its end: it has no time of this run's.
func endAtReboot(row *observedRow, old observedRow, now stamp) {
	if row.State != pod.RunExited || row.FinishedAt == "" || row.FinishedAt == old.FinishedAt {
		row.ExitCode, row.FinishedAt = rebootExitCode, now
	}
	row.State, row.StartedAt, row.PID = pod.RunExited, old.StartedAt, 0
}

// carryOver counts containers that were started since the sandbox was to its new
// run. Nobody saw the run before it end, and someone restarted the pod as a
// whole: Podman's times are all there is to tell by.
func (t *WriteTx) carryOver(box sandboxRow, run int) error {
	_, err := t.Exec(`UPDATE observed_containers SET sandbox_run = ? WHERE sandbox_id = ? AND sandbox_run = ? AND started_at >= ?`,
		box.Run, box.ID, run, box.StartedAt)
	return err
}

// sandboxRun is the run of its sandbox that a container was started in. One that
// is seen to run in a sandbox known to have ended was started in the next run of
// that, unless the sandbox ended after the runtime was asked.
func (o *observer) sandboxRun(old *observedRow, row observedRow) (int, error) {
	switch {
	case row.StartedAt == "":
		return 0, nil
	case old != nil && row.StartedAt.sameStart(old.StartedAt):
		return old.SandboxRun, nil
	}
	box, found, err := o.storedSandbox(row.SandboxID)
	switch {
	case err != nil || !found:
		return 1, err
	case o.facts.Complete:
		// Nobody saw either start. Podman's times are all there is to tell by.
		if old == nil && row.StartedAt < box.StartedAt {
			return box.Run - 1, nil
		}
		return box.Run, nil
	case box.State.Live():
		return box.Run, nil
	case box.State == pod.RunCreated || !o.asked.Before(o.store.order.rows[box.ID].changed):
		return box.Run + 1, nil
	}
	return box.Run, nil
}
