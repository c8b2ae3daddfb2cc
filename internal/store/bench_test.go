package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
)

func fifty() pod.SourceSet {
	var full pod.SourceSet
	for i := range 50 {
		full.Pods = append(full.Pods, submission(fmt.Sprintf("p%d", i), withImage("side", "nginx")))
	}
	return full
}

func BenchmarkUnchangedSyncOf50(b *testing.B) {
	s, _ := newStore(b)
	full := fifty()
	mustSync(b, s, dirA, full)
	for b.Loop() {
		mustSync(b, s, dirA, full)
	}
}

func BenchmarkLoad(b *testing.B) {
	s, _ := newStore(b)
	mustSync(b, s, dirA, fifty())
	uid := uidsOf(b, s, "p7")[0]
	for b.Loop() {
		if _, err := s.Load(context.Background(), uid); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkObserveAndCommit(b *testing.B) {
	s, c := newStore(b)
	mustSync(b, s, dirA, fifty())
	snap := load(b, s, "p7")
	n := 0
	for b.Loop() {
		n++
		mustObserve(b, s, pod.Facts{Containers: []pod.Container{containerOf(snap.Desired, "main", 0, c.advance(time.Second))}})
		r := recordFor(snap)
		r.Attempts = map[string]int{"main": n}
		r.Transitions = []pod.Transition{{Machine: pod.MachinePod, To: "Running"}}
		mustCommit(b, s, r)
	}
}

func BenchmarkOpen(b *testing.B) {
	o := testOptions(b.TempDir())
	s, _ := mustOpen(b, o)
	mustSync(b, s, dirA, fifty())
	for i := range 200 {
		if err := s.Write(context.Background(), "history", func(t *WriteTx) error {
			for j := range 100 {
				if err := t.addTransition(pod.Transition{Key: key(fmt.Sprint("p", j%50)), UID: "x", Container: "main", Machine: pod.MachineContainer, From: "Running", Event: "exit", To: "Terminated", Cause: pod.CauseExit, Detail: fmt.Sprint("exit code ", i)}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		s, _ := mustOpen(b, o)
		b.StopTimer()
		if err := s.Close(); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
	}
}
