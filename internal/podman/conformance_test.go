package podman_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"podstead.io/podstead/internal/node"
	"podstead.io/podstead/internal/podman"
	"podstead.io/podstead/internal/runtimetest"
	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

const busybox = "docker.io/library/busybox:latest"

func TestPodmanConforms(t *testing.T) {
	runtimetest.Conformance(t, func(t *testing.T) runtimetest.Harness {
		host := podmanhost.Start(t)
		var kills node.OOMKills
		t.Cleanup(following(t, &kills))
		driver, err := podman.New(podman.Options{URL: host.URL, Node: "node-1", OOMKilled: kills.Killed, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
		if err != nil {
			t.Fatal(err)
		}
		image, err := driver.InspectImage(t.Context(), busybox)
		if err != nil {
			t.Fatal(err)
		}
		return runtimetest.Harness{
			Runtime: driver, Observer: driver, Node: "node-1", Image: busybox, ImageID: image.ID,
			Machine: machine{t: t, host: host}, Service: host, OOM: true,
		}
	})
}

// following reads the kernel's log until the returned function is called.
func following(t *testing.T, kills *node.OOMKills) func() {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- kills.Follow(ctx) }()
	return func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// machine does by hand what happens past the API.
type machine struct {
	t    *testing.T
	host *podmanhost.Host
}

func (m machine) podman(args ...string) string {
	m.t.Helper()
	out, err := m.host.Podman(args...)
	if err != nil {
		m.t.Fatalf("podman %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

// Command is a shell that does what the script says. It waits for a child, since
// a shell runs its traps only between commands.
func (m machine) Command(_ string, s runtimetest.Script) []string {
	if s.Broken != "" {
		return []string{"/no/such/command"}
	}
	trap := fmt.Sprintf(`trap "sleep %g; exit %d" TERM; `, s.StopTakes.Seconds(), s.StopCode)
	if s.IgnoreTERM {
		trap = `trap "" TERM; `
	}
	life := `while :; do sleep 1000 & wait; done`
	if s.Lives > 0 {
		life = fmt.Sprintf(`sleep %g & wait $!; exit %d`, s.Lives.Seconds(), s.ExitCode)
	}
	if s.OOM {
		life = fmt.Sprintf(`sleep %g; x=.; while :; do x=$x$x; done`, s.Lives.Seconds())
	}
	return []string{"/bin/sh", "-c", trap + life}
}

func (m machine) pid(id string) int {
	m.t.Helper()
	pid, err := strconv.Atoi(m.podman("inspect", "--format", "{{.State.Pid}}", id))
	if err != nil {
		m.t.Fatal(err)
	}
	return pid
}

func (m machine) KillProcess(id string) {
	m.t.Helper()
	pid := m.pid(id)
	if pid <= 0 {
		m.t.Fatalf("container %s has no process", id)
	}
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		m.t.Fatal(err)
	}
}

func (m machine) StopByHand(id string)   { m.t.Helper(); m.podman("stop", "--time", "2", id) }
func (m machine) Pause(id string)        { m.t.Helper(); m.podman("pause", id) }
func (m machine) RemoveBehind(id string) { m.t.Helper(); m.podman("rm", "--force", "--time", "0", id) }

func (m machine) Foreign(name string, labels map[string]string) string {
	m.t.Helper()
	args := []string{"run", "--detach", "--name", name}
	for k, v := range labels {
		args = append(args, "--label", k+"="+v)
	}
	return m.podman(append(args, busybox, "/bin/sleep", "100000")...)
}

// Runs looks for the process rather than at what Podman believes, which is a
// moment late.
func (m machine) Runs(id string) bool {
	out, err := m.host.Podman("inspect", "--format", "{{.State.Pid}}", id)
	if err != nil {
		return false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(out))
	if err != nil || pid <= 0 {
		return false
	}
	deadline := time.Now().Add(100 * time.Millisecond) // a killed process is a zombie until conmon reaps it
	for time.Now().Before(deadline) {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
			return false
		}
	}
	return true
}
