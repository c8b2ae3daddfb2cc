package e2e

import (
	"strconv"
	"syscall"
	"testing"
)

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
