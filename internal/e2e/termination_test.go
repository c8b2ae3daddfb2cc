package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// awaitEnd waits until a process has ended and returns how long after the time
// given that was.
func awaitEnd(t *testing.T, pid int, since time.Time) time.Duration {
	t.Helper()
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	eventually(t, "the process has ended", func() error {
		_, err := os.Stat(proc)
		return unless(os.IsNotExist(err), "it has not")
	})
	return time.Since(since)
}

// TestTermination deletes pods that end in different ways: SIGTERM, the grace
// period, and only then SIGKILL (podman#21767, podman#22397, podman#19135), also
// when the agent is killed meanwhile (kubernetes#51835, kubernetes#72604,
// kubernetes#70044).
func TestTermination(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	drop := func(name string, seconds int64, script string) (file string, was map[string]container) {
		p := newPod(name, shell("a", script))
		p.Spec.TerminationGracePeriodSeconds = &seconds
		file = a.noted(t, p)
		a.drop(t, p)
		was = a.awaitRunning(t, static(name), "a")
		wantNotes(t, file, "ready")
		return file, was
	}

	t.Run("ends when asked", func(t *testing.T) {
		file, was := drop("obeys", 60, `trap 'echo asked >>/notes/log; exit 0' TERM; `+note("ready")+`while :; do sleep 3600 & wait $!; done`)
		began := time.Now()
		a.remove(t, "obeys.yaml")
		if took := awaitEnd(t, was["a"].PID, began); took > 30*time.Second {
			t.Errorf("it took %s, as if it had been given all of its grace", took)
		}
		a.awaitGone(t, static("obeys"))
		wantNotes(t, file, "ready", "asked")
	})
	t.Run("is killed after its grace", func(t *testing.T) {
		const seconds = 4
		file, was := drop("deaf", seconds, `trap 'echo asked >>/notes/log' TERM; `+note("ready")+`while :; do sleep 3600 & wait $!; done`)
		began := time.Now()
		a.remove(t, "deaf.yaml")
		wantNotes(t, file, "ready", "asked")
		p := a.mustPod(t, static("deaf"))
		if p.DeletionTimestamp == nil || p.DeletionGracePeriodSeconds == nil || *p.DeletionGracePeriodSeconds != seconds {
			t.Errorf("it is being deleted, and shows %v with %v seconds", p.DeletionTimestamp, p.DeletionGracePeriodSeconds)
		}
		if took := awaitEnd(t, was["a"].PID, began); took < seconds*time.Second {
			t.Errorf("it was killed after %s, and had %d s", took, seconds)
		}
		a.awaitGone(t, static("deaf"))
	})
	t.Run("goes on where it was after a crash", func(t *testing.T) {
		const seconds = 6
		file, was := drop("crash", seconds, `trap 'echo asked >>/notes/log' TERM; `+note("ready")+`while :; do sleep 3600 & wait $!; done`)
		began := time.Now()
		a.remove(t, "crash.yaml")
		wantNotes(t, file, "ready", "asked")
		a.kill()
		a.start(t)
		if took := awaitEnd(t, was["a"].PID, began); took < seconds*time.Second {
			t.Errorf("it was killed after %s, and had %d s", took, seconds)
		}
		a.awaitGone(t, static("crash"))
	})
	t.Run("an edit honours it too", func(t *testing.T) {
		file, was := drop("edited", 60, `trap 'sleep 1; echo $N >>/notes/log; exit 0' TERM; `+note("ready")+`while :; do sleep 3600 & wait $!; done`)
		p := newPod("edited", with(shell("a", note("next")+sleeping), "N", "2"))
		mounting(p, "notes", corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: filepath.Dir(file)}})
		seconds := int64(60)
		p.Spec.TerminationGracePeriodSeconds = &seconds
		a.drop(t, p)
		is := a.awaitGeneration(t, static("edited"), 2)
		replaced(t, was, is, "a")
		same(t, was, is, "POD")
		// The old one noted an empty line when it had ended, the new one after that.
		wantNotes(t, file, "ready", "next")
		rows, err := a.sql(`SELECT exit_code FROM observed_containers WHERE pod = ?1 AND container = 'a' AND attempt = 0`, static("edited"))
		if err != nil || fmt.Sprint(rows) != "[map[exit_code:0]]" {
			t.Errorf("the old attempt ended with %v (%v)", rows, err)
		}
	})
}
