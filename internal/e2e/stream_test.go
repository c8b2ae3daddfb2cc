package e2e

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

const eventStream = "GET events"

// streams counts the event streams opened since the last record, and those open.
func (k *track) streams() (opened, open int) {
	for _, s := range k.recorded() {
		if s.kind == eventStream {
			opened++
			if s.took < 0 {
				open++
			}
		}
	}
	return opened, open
}

// calls are what was asked of Podman since the last record.
func (k *track) calls() []string {
	var kinds []string
	for _, s := range k.recorded() {
		if !strings.HasPrefix(s.kind, writeKind) {
			kinds = append(kinds, s.kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// TestOneEventStreamAndNoPolling counts what Podman is asked (podman#8864,
// podman#7946, podman#27071: streams leak and burn CPU): one stream for as long as
// Podman runs, one again after it was stopped, and, while nothing changes, no call
// between two listings.
func TestOneEventStreamAndNoPolling(t *testing.T) {
	t.Parallel()
	const quiet = 15 * time.Second // the time between listings is longer
	a := newAgent(t, podmanhost.Start(t), "--sync-frequency", "10m")
	k := watchSteps(t, a)
	a.start(t)
	for i := range 3 {
		p := newPod(fmt.Sprint("web-", i), sleeper("a"))
		a.drop(t, p)
		a.awaitRunning(t, static(p.Name), "a")
		shoot(t, a.live(t, static(p.Name))["a"])
		a.awaitStatus(t, static(p.Name), "runs again", func(s corev1.PodStatus) bool {
			return statusOf(s, "a").RestartCount == 1 && statusOf(s, "a").State.Running != nil
		})
	}
	a.clear(t, "web-0")
	if opened, open := k.streams(); opened != 1 || open != 1 {
		t.Errorf("%d event streams were opened, and %d are open", opened, open)
	}

	k.shut()
	a.host.Stop()
	eventually(t, "the stream has broken", func() error {
		_, open := k.streams()
		return unless(open == 0, "%d are open", open)
	})
	k.record(nil)
	a.host.Start()
	k.open(t)
	a.ready(t)
	if _, open := k.streams(); open != 1 {
		t.Errorf("after Podman was started again %d event streams are open", open)
	}

	// What the stream's start is still to ask for has been asked when nothing was
	// for a while.
	eventually(t, "the agent is at rest", func() error {
		k.record(nil)
		time.Sleep(time.Second)
		calls := k.calls()
		return unless(len(calls) == 0, "it asks %v", calls)
	})
	always(t, quiet, "nothing is asked of Podman", func() error {
		calls := k.calls()
		return unless(len(calls) == 0, "it was asked %v", calls)
	})
}
