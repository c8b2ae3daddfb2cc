package e2e

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

// booted is a command that gives what it becomes the boot ID in a file.
const booted = `mount --bind "$0" /proc/sys/kernel/random/boot_id && exec "$@"`

// powerCut ends everything at once and leaves what a machine finds that was
// switched off and on again: storage and no processes, no mounts, an empty /run.
func (a *agent) powerCut(t *testing.T) {
	t.Helper()
	var processes []int
	for _, c := range a.containers(t, "") {
		if !c.live() {
			continue
		}
		conmon, err := strconv.Atoi(a.inspect(t, c.ID, "{{.State.ConmonPid}}"))
		if err != nil {
			t.Fatal(err)
		}
		// The monitor first: it would report the end of the other.
		processes = append([]int{conmon}, append(processes, c.PID)...)
	}
	a.kill()
	a.host.Kill()
	for _, pid := range processes {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("process %d: %v", pid, err)
		}
	}
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(table)), "\n")
	for _, line := range slices.Backward(lines) {
		if point := strings.Fields(line)[1]; strings.HasPrefix(point, a.host.Dir+"/") {
			if err := unix.Unmount(point, unix.MNT_DETACH); err != nil {
				t.Fatalf("unmount %s: %v", point, err)
			}
		}
	}
	err = errors.Join(os.RemoveAll(filepath.Join(a.host.Dir, "run")), os.RemoveAll(filepath.Join(a.host.Dir, "tmp")))
	if err != nil {
		t.Fatal(err)
	}
}

func TestReboot(t *testing.T) {
	t.Parallel()
	a := newAgent(t, podmanhost.Start(t))
	boot := filepath.Join(a.host.Dir, "boot_id")
	a.wrapper = []string{"unshare", "--mount", "sh", "-c", booted, boot, a.wrapper[0]}
	setBoot := func(id string) {
		if err := os.WriteFile(boot, []byte(id+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	setBoot("11111111-1111-4111-8111-111111111111")
	a.start(t)
	p := newPod("web", shell("a", note("a")+sleeping), sleeper("b"))
	p.Spec.InitContainers = []corev1.Container{shell("init", note("init"))}
	mounting(p, "disk", emptyDir("", ""))
	file := a.noted(t, p)
	a.drop(t, p)
	job := newPod("job", shell("a", "exit 0"))
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	a.drop(t, job)
	web := static("web")
	was := a.awaitRunning(t, web, "a", "b")
	a.awaitStatus(t, static("job"), "completes", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodSucceeded })
	a.exec(t, was["a"].ID, "touch", "/disk/kept")
	uid := a.mustPod(t, web).UID

	a.powerCut(t)
	setBoot("22222222-2222-4222-8222-222222222222")
	a.host.Start()
	a.start(t)

	a.awaitStatus(t, web, "has been started again", func(s corev1.PodStatus) bool {
		return statusOf(s, "a").RestartCount == 1 && statusOf(s, "b").RestartCount == 1
	})
	is := a.awaitRunning(t, web, "a", "b")
	replaced(t, was, is, "a", "b")
	wantNotes(t, file, "init", "a", "init", "a")
	if left := a.exec(t, is["a"].ID, "ls", "/disk"); left != "kept" {
		t.Errorf("the volume on disk held a file, and now %q", left)
	}
	s := a.mustPod(t, web)
	if s.UID != uid || s.Status.PodIP == "" {
		t.Errorf("the pod is %s with status %+v", s.UID, s.Status)
	}
	a.wantWhy(t, web, "b", "exit", "reboot", "the machine was restarted")
	a.wantState(t, web, "recreate", "reboot")
	if n := a.attempts(t, "job"); n != 1 {
		t.Errorf("what had completed was tried %d times", n)
	}
	if pods := a.podmanPods(t, web); len(pods) != 1 {
		t.Errorf("there are %d Podman pods of it", len(pods))
	}
	a.ready(t)
	a.remove(t, "web.yaml")
	a.awaitGone(t, web)
}
