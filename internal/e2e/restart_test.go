package e2e

import (
	"bytes"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// fleet is what runs through all restarts of the agent: a file's pod, a
// submitted one, and one that has completed.
type fleet struct{ web, sent map[string]container }

// startFleet starts the pods.
func (a *agent) startFleet(t *testing.T) fleet {
	t.Helper()
	a.drop(t, newPod("web", sleeper("a"), sleeper("b")))
	wantStatus(t, a.submit(t, manifest(t, newPod("sent", sleeper("a")))), http.StatusCreated)
	job := newPod("job", shell("a", "exit 0"))
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	a.drop(t, job)
	f := fleet{web: a.awaitRunning(t, static("web"), "a", "b"), sent: a.awaitRunning(t, "sent", "a")}
	a.awaitStatus(t, static("job"), "completes", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodSucceeded })
	return f
}

// check waits until the agent is ready and has looked at every pod, and fails if
// anything was restarted.
func (f fleet) check(t *testing.T, a *agent) {
	t.Helper()
	a.ready(t)
	a.proveAlive(t)
	same(t, f.web, a.awaitRunning(t, static("web"), "a", "b"))
	same(t, f.sent, a.awaitRunning(t, "sent", "a"))
	p := a.awaitStatus(t, static("job"), "stays completed", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodSucceeded })
	if n := statusOf(p.Status, "a").RestartCount; n != 0 {
		t.Errorf("what had completed was restarted %d times", n)
	}
	for _, name := range []string{static("web"), "sent", static("job")} {
		for _, c := range a.containers(t, name) {
			if c.attempt() != 0 {
				t.Errorf("another attempt was made: %s", c)
			}
		}
	}
}

// proveAlive starts and ends a pod: whatever the agent wanted to do to others
// when it started, it has begun by then.
func (a *agent) proveAlive(t *testing.T) {
	t.Helper()
	a.drop(t, newPod("proof", sleeper("a")))
	a.awaitRunning(t, static("proof"), "a")
	a.remove(t, "proof.yaml")
	a.awaitGone(t, static("proof"))
}

// stopLimit is what SIGTERM may take.
const stopLimit = 2 * time.Second

// stopInTime stops the agent and fails if that takes too long.
func (a *agent) stopInTime(t *testing.T) {
	t.Helper()
	if took := a.stop(t); took >= stopLimit {
		t.Errorf("the agent took %s to stop, and may take %s", took, stopLimit)
	}
	if code := a.running.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the agent ended with status %d", code)
	}
	if _, err := os.Stat(a.socket); err == nil {
		t.Error("the agent left its socket behind")
	}
}

// TestAgentRestart stops, kills and maims the agent, and nothing may restart
// (kubernetes#116080).
func TestAgentRestart(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	f := a.startFleet(t)

	t.Run("SIGTERM", func(t *testing.T) {
		a.stopInTime(t)
		same(t, f.web, a.live(t, static("web")))
		a.start(t)
		f.check(t, a)
	})
	t.Run("kill -9", func(t *testing.T) {
		a.kill()
		a.start(t)
		f.check(t, a)
	})
	t.Run("a second agent", a.secondAgent)
	t.Run("edited while the agent is away", func(t *testing.T) {
		a.stopInTime(t)
		a.drop(t, newPod("web", sleeper("a"), with(sleeper("b"), "N", "1")))
		a.start(t)
		is := a.awaitGeneration(t, static("web"), 2)
		same(t, f.web, is, "POD", "a")
		replaced(t, f.web, is, "b")
	})
	t.Run("deleted while the agent is away", func(t *testing.T) {
		a.stopInTime(t)
		a.remove(t, "web.yaml")
		a.start(t)
		a.awaitGone(t, static("web"))
		same(t, f.sent, a.awaitRunning(t, "sent", "a"))
	})
}

// secondAgent starts another agent on the same root directory.
func (a *agent) secondAgent(t *testing.T) {
	other := *a
	other.socket += "2"
	other.launch(t)
	select {
	case <-other.running.ended:
	case <-time.After(patience):
		other.kill()
		t.Fatal("a second agent runs on the same root directory")
	}
	if code := other.running.cmd.ProcessState.ExitCode(); code != 1 {
		t.Errorf("it ended with status %d, want 1", code)
	}
	said := strings.Split(strings.TrimSpace(a.logEnd()), "\n")
	if last := said[len(said)-1]; !strings.Contains(last, a.root) {
		t.Errorf("it does not name the root directory: %s", last)
	}
	if err := a.healthy("/healthz"); err != nil {
		t.Error(err)
	}
}

// database are the files of desired and observed state, backup those of the
// backup; each with its write-ahead log.
var (
	database = []string{"podstead.db", "podstead.db-wal", "podstead.db-shm"}
	backup   = []string{"podstead-backup.db", "podstead-backup.db-wal", "podstead-backup.db-shm", "podstead-backup.db-journal"}
)

func (a *agent) removeFiles(t *testing.T, files []string) {
	t.Helper()
	for _, name := range files {
		if err := os.Remove(filepath.Join(a.root, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
	}
}

// TestDatabaseLost takes the agent's files away while it is not looking.
func TestDatabaseLost(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "--sync-frequency", "5s")
	f := a.startFleet(t)
	uid := a.mustPod(t, "sent").UID

	t.Run("database", func(t *testing.T) {
		a.kill()
		a.removeFiles(t, database)
		a.start(t)
		f.check(t, a)
		if got := a.mustPod(t, "sent").UID; got != uid {
			t.Errorf("the submitted pod's UID was %s and is %s", uid, got)
		}
	})
	t.Run("garbage for a database", func(t *testing.T) {
		a.kill()
		a.removeFiles(t, database[1:])
		if err := os.WriteFile(filepath.Join(a.root, database[0]), bytes.Repeat([]byte("garbage "), 4096), 0o600); err != nil {
			t.Fatal(err)
		}
		a.start(t)
		f.check(t, a)
		aside, err := filepath.Glob(filepath.Join(a.root, "podstead.db.corrupt-*"))
		if err != nil || len(aside) != 1 {
			t.Errorf("the damaged file was not kept aside: %v %v", aside, err)
		}
		if !strings.Contains(a.logEnd(), "damaged") {
			t.Error("the log does not tell of the damage")
		}
	})
	t.Run("part of the database overwritten", func(t *testing.T) {
		a.stopInTime(t)
		file, err := os.OpenFile(filepath.Join(a.root, database[0]), os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		_, err = file.WriteAt(bytes.Repeat([]byte{0xa5}, 16<<10), 4096)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		a.start(t)
		f.check(t, a)
	})
	t.Run("deleted while the agent runs", func(t *testing.T) {
		a.removeFiles(t, database)
		wantStatus(t, a.submit(t, manifest(t, newPod("later", sleeper("a")))), http.StatusCreated)
		select { // what was written from then on would be lost with the next start
		case <-a.running.ended:
		case <-time.After(patience):
			t.Fatal("the agent runs on without its database")
		}
		contains(t, a.logEnd(), "removed or replaced")
		a.start(t)
		f.check(t, a)
		a.awaitRunning(t, "later", "a")
		wantStatus(t, a.withdraw(t, "later"), http.StatusOK)
		a.awaitGone(t, "later")
	})
	t.Run("database and backup", func(t *testing.T) {
		a.kill()
		a.removeFiles(t, database)
		a.removeFiles(t, backup)
		a.start(t)
		a.ready(t)
		same(t, f.web, a.awaitRunning(t, static("web"), "a", "b"))
		// Nobody knows any more how the submitted pod is to be run, and it is not the
		// agent's to end.
		same(t, f.sent, a.live(t, "sent"))
		eventually(t, "drift tells of the pod that nobody submitted", func() error {
			rows, err := a.sql(`SELECT DISTINCT action FROM drift WHERE pod = 'sent'`)
			if err != nil {
				return err
			}
			return unless(len(rows) == 1 && rows[0]["action"] == "none: submit it again, or delete it", "it tells %v", rows)
		})
		wantStatus(t, a.submit(t, manifest(t, newPod("sent", sleeper("a")))), http.StatusCreated)
		same(t, f.sent, a.awaitRunning(t, "sent", "a"))
		if got := a.mustPod(t, "sent").UID; got != uid {
			t.Errorf("the pod that was submitted again has UID %s, and had %s", got, uid)
		}
		same(t, f.web, a.live(t, static("web")))
	})
}
