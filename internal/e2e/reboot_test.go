package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

// booted is a command that gives what it becomes a boot ID and a resolver of its
// own.
const booted = `mount --bind "$0/boot_id" /proc/sys/kernel/random/boot_id && mount --bind "$0/resolv.conf" /etc/resolv.conf && exec "$@"`

// machine is an agent on a machine that can be switched off and on, and has no
// network: no registry can be reached, and no name server answers.
type machine struct {
	*agent
	boots   int
	lookups atomic.Int32 // questions to the name server
}

func newMachine(t *testing.T) *machine {
	t.Helper()
	m := &machine{agent: newAgent(t, podmanhost.Start(t), "--sync-frequency", "5s")}
	m.wrapper = []string{"unshare", "--mount", "sh", "-c", booted, m.host.Dir, m.wrapper[0]}
	server := m.deafNameServer(t)
	if err := os.WriteFile(filepath.Join(m.host.Dir, "resolv.conf"), []byte("nameserver "+server+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	m.nextBoot(t)
	m.start(t)
	return m
}

// deafNameServer takes questions and answers none.
func (m *machine) deafNameServer(t *testing.T) (address string) {
	t.Helper()
	slot, err := strconv.Atoi(filepath.Base(m.host.Dir)) // no two hosts have the same
	if err != nil {
		t.Fatal(err)
	}
	address = fmt.Sprintf("127.213.%d.53", slot)
	socket, err := net.ListenPacket("udp", address+":53")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for question := make([]byte, 512); ; {
			if _, _, err := socket.ReadFrom(question); err != nil {
				return
			}
			m.lookups.Add(1)
		}
	}()
	t.Cleanup(func() { _ = socket.Close(); <-ended })
	return address
}

// nextBoot gives the machine a boot ID that it has not had.
func (m *machine) nextBoot(t *testing.T) {
	t.Helper()
	m.boots++
	id := fmt.Sprintf("%08d-1111-4111-8111-111111111111\n", m.boots)
	if err := os.WriteFile(filepath.Join(m.host.Dir, "boot_id"), []byte(id), 0o600); err != nil {
		t.Fatal(err)
	}
}

// boot switches the machine on again.
func (m *machine) boot(t *testing.T) {
	t.Helper()
	m.nextBoot(t)
	m.host.Start()
	m.start(t)
}

// powerCut ends everything at once and leaves what a machine finds that was
// switched off and on again: storage and no processes, no mounts, an empty /run.
func (m *machine) powerCut(t *testing.T) {
	t.Helper()
	m.endAll()
	err := errors.Join(os.RemoveAll(filepath.Join(m.host.Dir, "run")), os.RemoveAll(filepath.Join(m.host.Dir, "tmp")))
	if err != nil {
		t.Fatal(err)
	}
}

// endAll is a power cut after which even /run is as it was.
func (m *machine) endAll() {
	m.host.PowerCut()
	<-m.running.ended
}

// TestReboot cuts the power of a machine without a network. Local desired state is
// enough to come back (kubeedge#4441, kubeedge#4210, nomad#24629), every boot runs
// the same order (compose#12589, ankaios#261), no name is left in use by what died
// (podman#27829), and no name server is asked for anything.
func TestReboot(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := newPod("web", shell("a", note("a")+sleeping), sleeper("b"))
	p.Spec.InitContainers = []corev1.Container{shell("init", note("init"))}
	mounting(p, "disk", emptyDir("", ""))
	file := m.noted(t, p)
	m.drop(t, p)
	job := newPod("job", shell("a", "exit 0"))
	job.Spec.RestartPolicy = corev1.RestartPolicyNever
	m.drop(t, job)
	m.drop(t, newPod("pulls", nginx())) // its policy is Always
	web := static("web")
	was := m.awaitRunning(t, web, "a", "b")
	m.awaitRunning(t, static("pulls"), "nginx")
	m.awaitStatus(t, static("job"), "completes", func(s corev1.PodStatus) bool { return s.Phase == corev1.PodSucceeded })
	m.exec(t, was["a"].ID, "touch", "/disk/kept")
	uid := m.mustPod(t, web).UID

	m.powerCut(t)
	m.boot(t)

	m.awaitRestarted(t, web, 1, "a", "b")
	m.awaitRestarted(t, static("pulls"), 1, "nginx")
	is := m.awaitRunning(t, web, "a", "b")
	replaced(t, was, is, "a", "b")
	wantNotes(t, file, "init", "a", "init", "a")
	if left := m.exec(t, is["a"].ID, "ls", "/disk"); left != "kept" {
		t.Errorf("the volume on disk held a file, and now %q", left)
	}
	s := m.mustPod(t, web)
	if s.UID != uid || s.Status.PodIP == "" {
		t.Errorf("the pod is %s with status %+v", s.UID, s.Status)
	}
	m.wantWhy(t, web, "b", "exit", "reboot", "the machine was restarted")
	m.wantState(t, web, "recreate", "reboot")
	if n := m.attempts(t, "job"); n != 1 {
		t.Errorf("what had completed was tried %d times", n)
	}
	if pods := m.podmanPods(t, web); len(pods) != 1 {
		t.Errorf("there are %d Podman pods of it", len(pods))
	}
	m.ready(t)
	if n := m.lookups.Load(); n > 0 {
		t.Errorf("the name server was asked %d times", n)
	}
	m.clear(t, "web", "pulls", "job")
}

// awaitRestarted waits until the containers have been restarted so often and run.
func (m *machine) awaitRestarted(t *testing.T, name string, times int32, containers ...string) {
	t.Helper()
	m.awaitStatus(t, name, fmt.Sprintf("has been started %d times again", times), func(s corev1.PodStatus) bool {
		return !slices.ContainsFunc(containers, func(c string) bool {
			return statusOf(s, c).RestartCount != times || statusOf(s, c).State.Running == nil
		})
	})
}

// TestRebootTwice cuts the power again while the machine comes back.
func TestRebootTwice(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	pods := []string{"one", "two", "three"}
	for _, name := range pods {
		m.drop(t, newPod(name, sleeper("a"), sleeper("b")))
	}
	for _, name := range pods {
		m.awaitRunning(t, static(name), "a", "b")
	}
	m.powerCut(t)
	m.boot(t)
	eventually(t, "the first sandbox of the second boot runs", func() error {
		sandboxes, _ := summary(m.witness.look())
		return unless(sandboxes > 0, "there is none")
	})
	m.powerCut(t)
	m.boot(t)
	m.ready(t)
	for _, name := range pods {
		is := m.awaitRunning(t, static(name), "a", "b")
		if left := m.podmanPods(t, static(name)); len(left) != 1 {
			t.Errorf("there are %d Podman pods of %s", len(left), name)
		}
		for _, c := range names(is) {
			if n := is[c].attempt(); n < 1 || n > 2 {
				t.Errorf("after two reboots there is %s", is[c])
			}
		}
	}
	m.ready(t)
	m.clear(t, pods...)
}

// TestRebootIntoHungPodman boots into a Podman that gives no sign of life
// (nomad-driver-podman#229): the agent answers, says what is the matter and what
// is wanted, and starts everything once Podman answers.
func TestRebootIntoHungPodman(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.drop(t, newPod("web", sleeper("a"), sleeper("b")))
	web := static("web")
	m.awaitRunning(t, web, "a", "b")
	m.powerCut(t)
	m.nextBoot(t)
	m.host.Start()
	m.host.Pause()
	m.start(t) // it answers
	contains(t, m.prints(t, "get", "pods"), web)
	m.drop(t, newPod("new", sleeper("a")))
	m.awaitKnown(t, static("new"))
	if ready := string(m.asked(t, request{path: "/readyz"}).body); !strings.Contains(ready, "[-]podman") {
		t.Errorf("/readyz says %s", ready)
	}
	m.host.Resume()
	m.awaitRestarted(t, web, 1, "a", "b")
	m.awaitRunning(t, static("new"), "a")
	m.ready(t)
	m.clear(t, "web", "new")
}
