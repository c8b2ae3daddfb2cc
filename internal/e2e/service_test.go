package e2e

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

// hidden is a command that hides the machine's own Podman from what it becomes:
// the agent would use it. In a mount namespace of its own what is mounted is seen
// by nobody else, so that pods need the host's network: the podman command of the
// test could not find theirs.
const hidden = `[ ! -d /run/podman ] || mount -t tmpfs none /run/podman; exec "$@"`

// service is the process of the agent's own Podman service; 0: there is none.
func (a *agent) service(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "stat"))
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if fields[0] != "Z" && fields[1] == fmt.Sprint(a.running.cmd.Process.Pid) {
			return pid
		}
	}
	return 0
}

// TestOwnPodmanService has an agent that finds no Podman service and runs one.
func TestOwnPodmanService(t *testing.T) {
	t.Parallel()
	host := podmanhost.Start(t)
	host.Stop()
	a := newAgent(t, host)
	a.podman = nil
	a.wrapper = []string{"unshare", "--mount", "env", "--unset=XDG_RUNTIME_DIR", "sh", "-c", hidden, "sh", binaries.agent}
	a.start(t)
	web, next := newPod("web", sleeper("a")), newPod("next", sleeper("a"))
	web.Spec.HostNetwork, next.Spec.HostNetwork = true, true
	a.drop(t, web)
	was := a.awaitRunning(t, static("web"), "a")
	first := a.service(t)
	if first == 0 {
		t.Fatal("a pod runs, and the agent has no service")
	}

	t.Run("killed", func(t *testing.T) {
		if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		a.drop(t, next)
		a.awaitRunning(t, static("next"), "a")
		if second := a.service(t); second == first || second == 0 {
			t.Errorf("the service was process %d and is %d", first, second)
		}
		same(t, was, a.awaitRunning(t, static("web"), "a"))
		a.ready(t)
	})
	t.Run("the agent stops", func(t *testing.T) {
		running := a.service(t)
		a.stopInTime(t)
		if syscall.Kill(running, 0) == nil {
			t.Errorf("its service, process %d, goes on without it", running)
		}
		same(t, was, a.live(t, static("web")))
		a.start(t)
		same(t, was, a.awaitRunning(t, static("web"), "a"))
	})
	t.Run("the agent is killed", func(t *testing.T) {
		running := a.service(t)
		a.kill()
		eventually(t, "its service has ended too", func() error {
			return unless(syscall.Kill(running, 0) != nil, "process %d goes on", running)
		})
		a.start(t)
		a.ready(t)
		same(t, was, a.awaitRunning(t, static("web"), "a"))
		a.remove(t, "web.yaml")
		a.awaitGone(t, static("web"))
	})
}
