package e2e

import (
	"strconv"
	"syscall"
	"testing"
)

// TestRebootWithStaleState leaves Podman's own notes of what ran, as on a machine
// whose /run is on disk: Podman takes the dead for running until it looks.
func TestRebootWithStaleState(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.drop(t, newPod("web", sleeper("a"), sleeper("b")))
	web := static("web")
	was := m.awaitRunning(t, web, "a", "b")
	m.endAll()
	m.boot(t)
	m.awaitRestarted(t, web, 1, "a", "b")
	is := m.awaitRunning(t, web, "a", "b")
	replaced(t, was, is, "a", "b")
	m.wantWhy(t, web, "b", "exit", "reboot", "the machine was restarted")
	m.ready(t)
	m.clear(t, "web")
}

// TestMonitorKilled kills a container's monitor, as the kernel does for lack of
// memory, and then the container: Podman never learns of its end.
func TestMonitorKilled(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "--sync-frequency", "5s")
	a.drop(t, newPod("web", sleeper("a"), sleeper("b")))
	web := static("web")
	first := a.awaitRunning(t, web, "a", "b")
	_, is := a.disturb(t, web, "a", func(c container) {
		monitor, err := strconv.Atoi(a.inspect(t, c.ID, "{{.State.ConmonPid}}"))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(monitor, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		shoot(t, c)
	})
	same(t, first, is, "POD", "b")
}
