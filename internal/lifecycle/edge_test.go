package lifecycle

import (
	"slices"
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
)

// The row of a restart may have been lost to a crash between the end of an attempt
// and the row, or to a call that took effect when nobody waited for it any more.
func TestEdgeMakesUpForARestartThatIsNotOnRecord(t *testing.T) {
	created := &pod.Container{Container: "a", Attempt: 1, State: pod.RunCreated}
	running := &pod.Container{Container: "a", Attempt: 1, State: pod.RunRunning, StartedAt: time.Unix(1, 0)}
	ended := &pod.Container{Container: "a", Attempt: 1, State: pod.RunExited, StartedAt: time.Unix(1, 0), FinishedAt: time.Unix(2, 0), EndCause: pod.CauseExit}
	for _, test := range []struct {
		name          string
		last          string
		before, after *pod.Container
		want          []string
	}{
		{"started", ContainerTerminated, created, running, []string{EventRestart, EventStart}},
		{"seen for the first time", ContainerTerminated, nil, running, []string{EventRestart, EventStart}},
		{"ended already", ContainerTerminated, nil, ended, []string{EventRestart, EventExit}},
		{"on record", ContainerWaiting, created, running, []string{EventStart}},
		{"nothing on record", ContainerNone, created, running, []string{EventStart}},
		{"ends", ContainerRunning, running, ended, []string{EventExit}},
		{"started by hand", ContainerTerminated, ended, running, []string{EventStart}},
		{"created", ContainerTerminated, nil, created, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			list := ContainerEdge(pod.Transition{To: test.last, Cause: pod.CauseSource, Detail: specChanged}, test.before, test.after)
			var got []string
			at := test.last
			for _, tr := range list {
				if test.last != ContainerNone && tr.From != at {
					t.Errorf("%s starts at %s, not %s", tr.Event, tr.From, at)
				}
				at = tr.To
				got = append(got, tr.Event)
				if tr.Event == EventRestart && (tr.Cause != pod.CauseSource || tr.Detail != specChanged || tr.Attempt != 1) {
					t.Errorf("restart %+v", tr)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}
