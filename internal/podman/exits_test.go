package podman

import (
	"log/slog"
	"os/exec"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"podstead.io/podstead/internal/pod"
)

// member stands for the ID of a container that the tests' own processes are in:
// it is in the name of every control group.
const member = "/"

func hasEnded(e *exits, id string, pid int) bool {
	at, _ := e.ended(id, pid)
	return !at.IsZero()
}

func newExits(t *testing.T) (e *exits, told chan string) {
	defer goleak.IgnoreCurrent()
	e = &exits{processes: map[string]*process{}, followers: map[*func(pod.RuntimeEvent)]struct{}{}, log: slog.New(slog.NewTextHandler(t.Output(), nil))}
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
	e.follow(member, pid)
	e.follow(member, pid) // a second look at the same run
	if hasEnded(e, member, pid) {
		t.Fatal("it is said to have ended while it runs")
	}
	kill()
	if id := <-told; id != member {
		t.Fatalf("told of %q", id)
	}
	if !hasEnded(e, member, pid) || hasEnded(e, member, pid+1) {
		t.Fatal("its run has ended, and no other")
	}
	e.follow(member, pid) // what Podman still calls running is not told again
	if len(told) > 0 {
		t.Fatalf("told twice of %q", <-told)
	}
}

func TestEndBeforeItWasFollowed(t *testing.T) {
	e, told := newExits(t)
	pid, kill := startSleep(t)
	kill()
	e.follow(member, pid)
	if !hasEnded(e, member, pid) || len(told) > 0 {
		t.Fatal("who follows it has to see that it has ended, and nobody else is told")
	}
}

func TestExpectedEndIsNotTold(t *testing.T) {
	e, told := newExits(t)
	pid, kill := startSleep(t)
	e.follow(member, pid)
	done := e.expect(member)
	kill()
	e.waiting.Wait()
	done()
	if len(told) > 0 {
		t.Fatalf("told of %q", <-told)
	}
	if !hasEnded(e, member, pid) {
		t.Fatal("an end that was expected is not known")
	}
}

func TestForgottenIsNotTold(t *testing.T) {
	e, told := newExits(t)
	pid, kill := startSleep(t)
	e.follow(member, pid)
	e.forget(member)
	e.waiting.Wait()
	kill()
	if len(told) > 0 || hasEnded(e, member, pid) {
		t.Fatal("a forgotten process is followed")
	}
}

// TestOtherProgramIsNotTheContainer: process IDs are given again, after a boot
// above all.
func TestOtherProgramIsNotTheContainer(t *testing.T) {
	e, told := newExits(t)
	pid, _ := startSleep(t)
	const id = "5e1c04a1d7"
	e.follow(id, pid)
	if !hasEnded(e, id, pid) || len(told) > 0 {
		t.Fatal("another program is taken for the container")
	}
}
