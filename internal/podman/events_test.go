package podman

import (
	"slices"
	"testing"
	"time"

	"github.com/containers/podman/v4/pkg/domain/entities"

	"podstead.io/podstead/internal/pod"
)

// said is one entry of Podman's stream: what, and how many milliseconds in.
type said struct {
	action string
	at     int
}

func (s said) event(labels map[string]string) entities.Event {
	begin := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var e entities.Event
	e.Type, e.Action = "container", s.action
	e.Actor.ID, e.Actor.Attributes = "c1", labels
	e.TimeNano = begin.Add(time.Duration(s.at) * time.Millisecond).UnixNano()
	return e
}

func TestStopIsToldFromAnEnd(t *testing.T) {
	mine := pod.Identity{Key: pod.Key{Namespace: "default", Name: "web"}, UID: "u", Node: "node-1", Kind: pod.KindContainer, Container: "a", Hash: "h"}
	theirs := mine
	theirs.Node = "node-2"
	tests := []struct {
		name   string
		stream []said
		labels map[string]string
		want   []pod.EventKind
	}{
		{"ends by itself", []said{{"start", 0}, {"died", 100}, {"cleanup", 400}}, mine.Labels(), []pod.EventKind{pod.EventStarted, pod.EventDied}},
		{"podman stop", []said{{"start", 0}, {"died", 100}, {"cleanup", 400}, {"cleanup", 500}}, mine.Labels(), []pod.EventKind{pod.EventStarted, pod.EventDied, pod.EventStopped}},
		{"podman stop that reports it", []said{{"start", 0}, {"stop", 90}, {"died", 100}, {"cleanup", 400}}, mine.Labels(), []pod.EventKind{pod.EventStarted, pod.EventStopped, pod.EventDied}},
		{"podman kill", []said{{"start", 0}, {"kill", 90}, {"died", 100}, {"cleanup", 400}}, mine.Labels(), []pod.EventKind{pod.EventStarted, pod.EventStopped, pod.EventDied}},
		{"stopped after it had ended", []said{{"start", 0}, {"died", 100}, {"cleanup", 400}, {"cleanup", 20_000}}, mine.Labels(), []pod.EventKind{pod.EventStarted, pod.EventDied}},
		{"ends twice", []said{{"died", 100}, {"cleanup", 400}, {"start", 500}, {"died", 600}, {"cleanup", 700}}, mine.Labels(), []pod.EventKind{pod.EventDied, pod.EventStarted, pod.EventDied}},
		{"its end was before the stream", []said{{"cleanup", 400}, {"cleanup", 500}}, mine.Labels(), nil},
		{"someone else's", []said{{"start", 0}, {"died", 100}, {"cleanup", 400}, {"cleanup", 500}}, theirs.Labels(), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := &Driver{o: Options{Node: "node-1"}}
			ends := ends{}
			var got []pod.EventKind
			for _, s := range test.stream {
				if e, ok := d.translate(s.event(test.labels), ends); ok {
					got = append(got, e.Kind)
				}
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("told %v, want %v", got, test.want)
			}
		})
	}
}
