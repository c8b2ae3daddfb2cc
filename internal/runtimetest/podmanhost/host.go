package podmanhost

import (
	"os"
	"testing"
)

// Host is a [Service] for one test, which is failed when the host can't do what is
// asked of it. Its methods may be called while the test runs, one at a time.
type Host struct {
	*Service
	tb testing.TB
}

// Start makes a host for the test and removes it when the test ends. Where no
// Podman can be run the test fails: a test that needs one never passes unseen.
func Start(tb testing.TB) *Host {
	tb.Helper()
	service, err := Create(os.Getpid())
	if err != nil {
		tb.Fatalf("start a private Podman: %v", err)
	}
	h := &Host{Service: service, tb: tb}
	tb.Cleanup(func() {
		if tb.Failed() {
			h.logService()
		}
		h.check(service.Remove())
	})
	return h
}

// Start starts the service again after Stop or Kill.
func (h *Host) Start() { h.tb.Helper(); h.check(h.Service.Start()) }

// Stop ends the service with SIGTERM; containers go on.
func (h *Host) Stop() { h.tb.Helper(); h.check(h.Service.Stop()) }

// Kill ends the service with SIGKILL; containers go on.
func (h *Host) Kill() { h.tb.Helper(); h.check(h.Service.Kill()) }

// Pause stops the service where it is: its socket accepts and never answers.
func (h *Host) Pause() { h.tb.Helper(); h.check(h.Service.Pause()) }

// Resume lets a paused service go on.
func (h *Host) Resume() { h.tb.Helper(); h.check(h.Service.Resume()) }

// PowerCut ends every process of the host at once, the agent and all containers
// included, and leaves nothing mounted. Files stay.
func (h *Host) PowerCut() { h.tb.Helper(); h.check(h.Service.PowerCut()) }

// Restart stops the service and starts it again.
func (h *Host) Restart() { h.tb.Helper(); h.check(h.Service.Restart()) }

func (h *Host) check(err error) {
	h.tb.Helper()
	if err != nil {
		h.tb.Errorf("private Podman in %s: %v", h.Dir, err)
	}
}

func (h *Host) logService() {
	h.tb.Helper()
	if said, err := os.ReadFile(h.logFile()); err == nil && len(said) > 0 {
		h.tb.Logf("podman system service said:\n%s", said)
	}
}
