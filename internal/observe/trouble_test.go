package observe_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

// logBook keeps what is logged at the level of information and above.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logBook) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(p))
	return len(p), nil
}

// since returns the lines after the first n.
func (l *logBook) since(n int) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string(nil), l.lines[n:]...)
}

func (r *rig) wantLog(from int, want ...string) {
	r.Helper()
	got := r.log.since(from)
	if len(got) != len(want) {
		r.Fatalf("logged\n%s", strings.Join(got, ""))
	}
	for i := range want {
		if !strings.Contains(got[i], want[i]) {
			r.Errorf("logged %q; want %q", got[i], want[i])
		}
	}
}

// A container that Podman can't describe is asked after ever more seldom, and
// logged once.
func TestLookThatKeepsFailingIsBackedOffAndLoggedOnce(t *testing.T) {
	inBubble(t, func(r *rig) {
		c := r.running("a")
		r.pass(time.Second)
		from := len(r.log.since(0))
		r.fake.ForgetCalls()
		r.fake.Inject(runtimetest.Fault{Op: runtimetest.OpInspectContainer, Container: "a", Class: pod.Unavailable})
		r.fake.Pause(c.ID)
		r.pass(30 * time.Minute)
		if n := len(r.fake.Calls(runtimetest.OpInspectContainer)); n < 20 || n > 45 {
			r.Errorf("asked %d times in half an hour", n)
		}
		r.wantLog(from, "Podman can't be observed")
		if got := r.stored(c.ID); got.State != pod.RunPaused {
			r.Errorf("the listing tells that it is paused, and it is stored as %s", got.State)
		}
		if err := r.observer.Health(); err != nil {
			r.Errorf("Podman answers everything else, and yet: %v", err)
		}
		r.fake.ClearFaults()
		r.pass(2 * time.Minute)
		r.wantLog(from, "Podman can't be observed", "can be again")
	})
}

func TestFailureOfTheStoreIsNotPodmans(t *testing.T) {
	inBubble(t, func(r *rig) {
		from := len(r.log.since(0))
		r.store.failNext(4)
		r.observer.Resync()
		r.pass(time.Second)
		r.wantLog(from, "can't be stored")
		if err := r.observer.Health(); err != nil {
			r.Errorf("Podman answers, and yet: %v", err)
		}
		r.pass(time.Minute)
		r.wantLog(from, "can't be stored", "can be again")
	})
}

// While Podman is away everything fails; that is said once.
func TestAwayPodmanIsLoggedOnceAndAskedAtOnceWhenItIsBack(t *testing.T) {
	inBubble(t, func(r *rig) {
		a, b := r.running("a"), r.running("b")
		r.pass(time.Second)
		from := len(r.log.since(0))
		r.fake.StopService()
		r.fake.Exit(a.ID, 1)
		r.fake.Exit(b.ID, 1)
		r.pass(time.Hour)
		r.wantLog(from, "stream broke")
		r.fake.StartService()
		r.pass(1500 * time.Millisecond)
		if got := r.stored(a.ID); got.State != pod.RunExited {
			r.Errorf("stored as %s", got.State)
		}
		returned := false
		for _, f := range r.store.take() {
			returned = returned || f.Returned
		}
		if !returned {
			r.Error("no listing said that Podman is back")
		}
		r.observer.Resync()
		r.pass(time.Second)
		for _, f := range r.store.take() {
			if f.Returned {
				r.Error("Podman is said to be back twice")
			}
		}
	})
}
