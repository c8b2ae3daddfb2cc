package podman

import (
	"os/exec"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"podstead.io/podstead/internal/pod"
)

func newExits(t *testing.T) (e *exits, told chan string) {
	defer goleak.IgnoreCurrent()
	e = &exits{processes: map[string]*process{}, followers: map[*func(pod.RuntimeEvent)]struct{}{}}
	told = make(chan string, 8)
	cancel := e.subscribe(func(ev pod.RuntimeEvent) {
		if ev.Kind != pod.EventDied || ev.At.IsZero() {
			t.Errorf("told of %+v", ev)
		}
		told <- ev.ID
	})
	t.Cleanup(func() {
		e.close()
		cancel()
		goleak.VerifyNone(t)
	})
	return e, told
}

func startSleep(t *testing.T) (pid int, kill func()) {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(kill)
	return cmd.Process.Pid, kill
}

func TestEndIsTold(t *testing.T) {
	e, told := newExits(t)
	pid, kill := startSleep(t)
	e.follow("c1", pid)
	e.follow("c1", pid) // a second look at the same run
	if e.ended("c1", pid) {
		t.Fatal("it is said to have ended while it runs")
	}
	kill()
	if id := <-told; id != "c1" {
		t.Fatalf("told of %q", id)
	}
	if !e.ended("c1", pid) || e.ended("c1", pid+1) {
		t.Fatal("its run has ended, and no other")
	}
	e.follow("c1", pid) // what Podman still calls running is not told again
	if len(told) > 0 {
		t.Fatalf("told twice of %q", <-told)
	}
}

func TestEndBeforeItWasFollowed(t *testing.T) {
	e, told := newExits(t)
	pid, kill := startSleep(t)
	kill()
	e.follow("c1", pid)
	if id := <-told; id != "c1" {
		t.Fatalf("told of %q", id)
	}
}

func TestExpectedEndIsNotTold(t *testing.T) {
	e, told := newExits(t)
	pid, kill := startSleep(t)
	e.follow("c1", pid)
	done := e.expect("c1")
	kill()
	e.waiting.Wait()
	done()
	if len(told) > 0 {
		t.Fatalf("told of %q", <-told)
	}
	if !e.ended("c1", pid) {
		t.Fatal("an end that was expected is not known")
	}
}

func TestForgottenIsNotTold(t *testing.T) {
	e, told := newExits(t)
	pid, kill := startSleep(t)
	e.follow("c1", pid)
	e.forget("c1")
	e.waiting.Wait()
	kill()
	if len(told) > 0 || e.ended("c1", pid) {
		t.Fatal("a forgotten process is followed")
	}
}
