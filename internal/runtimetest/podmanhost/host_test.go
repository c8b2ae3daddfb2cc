package podmanhost

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// must returns what podman printed, and fails the test when it failed.
func must(t *testing.T, h *Host, args ...string) string {
	t.Helper()
	out, err := h.Podman(args...)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// startNginx runs nginx in a pod and returns its container and its IP.
func startNginx(t *testing.T, h *Host) (container, ip string) {
	t.Helper()
	must(t, h, "pod", "create", "--name", "web")
	container = must(t, h, "run", "--detach", "--pod", "web", "nginx")
	infra := must(t, h, "pod", "inspect", "web", "--format", "{{.InfraContainerID}}")
	ip = must(t, h, "inspect", infra, "--format", "{{range .NetworkSettings.Networks}}{{.IPAddress}}{{end}}")
	return container, ip
}

func get(t *testing.T, ip string) string {
	t.Helper()
	client := http.Client{Timeout: time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	var body []byte
	err := until(10*time.Second, "HTTP from "+ip, func() bool {
		response, err := client.Get("http://" + ip + "/")
		if err != nil {
			return false
		}
		body, err = io.ReadAll(response.Body)
		return errors.Join(err, response.Body.Close()) == nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

func TestHostsRunPodsSideBySide(t *testing.T) {
	for _, name := range []string{"one", "two"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := Start(t)
			_, ip := startNginx(t, h)
			fresh := netip.PrefixFrom(h.slot.subnet().Addr(), 28)
			if !fresh.Contains(netip.MustParseAddr(ip)) {
				t.Errorf("the first pod got %s, not one of %s: an earlier host's addresses are still taken", ip, fresh)
			}
			if page := get(t, ip); !strings.Contains(page, "Welcome to nginx!") {
				t.Errorf("nginx at %s answers %q", ip, page)
			}
			if pods := must(t, h, "pod", "ps", "--quiet"); strings.Contains(pods, "\n") {
				t.Errorf("the host shows another's pods: %s", pods)
			}
		})
	}
}

func TestServiceFaults(t *testing.T) {
	h := Start(t)
	socket := strings.TrimPrefix(h.URL, "unix://")
	container, ip := startNginx(t, h)

	first := h.PID()
	h.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := exec.CommandContext(ctx, "curl", "-s", "--unix-socket", socket, "http://podman/_ping").Run(); ctx.Err() == nil {
		t.Errorf("a paused service answered: %v", err)
	}
	h.Resume()
	if err := ping(socket, nil); err != nil {
		t.Errorf("after Resume: %v", err)
	}

	h.Kill()
	if h.PID() != 0 {
		t.Error("the service runs after Kill")
	}
	get(t, ip)
	h.Start()
	h.Restart()
	if second := h.PID(); second == 0 || second == first {
		t.Errorf("PID is %d after a restart, and was %d", second, first)
	}
	if state := must(t, h, "inspect", container, "--format", "{{.State.Status}}"); state != "running" {
		t.Errorf("the container is %s after the service was killed and restarted", state)
	}
}

// TestNothingIsLeft lets a host do what leaves traces, and breaks it before it is
// removed.
func TestNothingIsLeft(t *testing.T) {
	before := namespaces(t)
	var s slot
	var ids map[string]bool
	t.Run("host", func(t *testing.T) {
		h := Start(t)
		s = h.slot
		startNginx(t, h)
		must(t, h, "run", "--detach", "--publish", "127.0.0.1::80", "--pid", "host", "busybox",
			"sh", "-c", "(setsid sleep 1000 &) ; sleep 1000")
		must(t, h, "run", "--rm", "busybox", "true")
		h.Pause()
		ids = containerIDs(s.dir())
		if len(ids) < 4 {
			t.Errorf("the traces of %d containers and pods were found, and there are at least 4", len(ids))
		}
		if err := os.Mkdir(filepath.Join(h.Dir, "agent"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := run(nil, "mount", "-t", "tmpfs", "none", filepath.Join(h.Dir, "agent")); err != nil {
			t.Fatal(err)
		}
	})
	if _, err := os.Stat(s.dir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", s.dir(), err)
	}
	if pids := members(s.dir()); len(pids) > 0 {
		t.Errorf("processes are left: %v", pids)
	}
	if points, err := mountsBelow(s.dir()); err != nil || len(points) > 0 {
		t.Errorf("mounts are left: %v %v", points, err)
	}
	for name := range namespaces(t) {
		if !before[name] && s.addressedIn(filepath.Join(netnsDir, name)) {
			t.Errorf("network namespace %s is left", name)
		}
	}
	if s.taken() {
		t.Errorf("bridge %s is left", s.bridge())
	}
	for _, table := range []string{"nat", "filter"} {
		saved, err := output(nil, "iptables-save", "-t", table)
		if err != nil {
			t.Fatal(err)
		}
		if script := s.restoreScript(table, saved); script != "" {
			t.Errorf("firewall rules are left: %s", script)
		}
	}
	for id := range ids {
		for _, pattern := range []string{"/sys/fs/cgroup/libpod_parent/*" + id, "/sys/fs/cgroup/*/libpod_parent/*" + id} {
			if left, _ := filepath.Glob(pattern); len(left) > 0 {
				t.Errorf("cgroups are left: %v", left)
			}
		}
	}
}

func namespaces(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	entries, err := os.ReadDir(netnsDir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		names[entry.Name()] = true
	}
	return names
}

func TestHostsOfTheDeadAreRemoved(t *testing.T) {
	owner := exec.Command("sleep", "60")
	if err := owner.Start(); err != nil {
		t.Fatal(err)
	}
	abandoned, err := Create(owner.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	service := abandoned.PID()
	_ = owner.Process.Kill()
	_ = owner.Wait()
	if _, err := Create(owner.Process.Pid); err == nil {
		t.Error("a host was created for a process that is gone")
	}
	kept, err := Create(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := kept.Remove(); err != nil {
			t.Error(err)
		}
	})
	if err := kept.Keep(); err != nil {
		t.Fatal(err)
	}
	if err := Reap(); err != nil {
		t.Fatal(err)
	}
	if startTime(service) != gone {
		t.Error("the service of a process that is gone runs")
	}
	again, err := Open(kept.Dir)
	if err != nil {
		t.Fatal(err)
	}
	if again.PID() == 0 || again.Registry != kept.Registry {
		t.Errorf("opened %+v, created %+v", again, kept)
	}
}

func TestRegistry(t *testing.T) {
	h := Start(t)
	h.StartRegistry("user", "secret")
	image := h.Registry + "/team/busybox:1"
	if _, err := h.Podman("push", "busybox", image); err == nil {
		t.Error("the registry took an image from nobody")
	}
	must(t, h, "push", "--creds", "user:secret", "busybox", image)
	must(t, h, "pull", "--quiet", "--creds", "user:secret", image)
	if _, err := h.Podman("pull", "--quiet", "--creds", "user:secret", h.Registry+"/team/absent:1"); err == nil {
		t.Error("an absent image was pulled")
	}
}
