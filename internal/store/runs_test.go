package store

import (
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
)

// With a clock that was set back, what Podman started later has an earlier time.
func TestRunsAreToldApartNotOrderedByTheirTimes(t *testing.T) {
	for _, jump := range []time.Duration{-10 * 365 * 24 * time.Hour, -time.Second, time.Second, 10 * 365 * 24 * time.Hour} {
		t.Run(jump.String(), func(t *testing.T) {
			s, c, d, main := runningPod(t)
			asked := c.advance(time.Second)
			mustObserve(t, s, pod.Facts{Containers: []pod.Container{exited(main, 3, main.StartedAt.Add(time.Second))}, AsOf: asked})
			again := main
			again.StartedAt = main.StartedAt.Add(jump)
			box := sandboxOf(d, main.StartedAt.Add(jump))
			mustObserve(t, s, pod.Facts{Containers: []pod.Container{again}, Sandboxes: []pod.Sandbox{box}, AsOf: c.advance(time.Second)})
			if got := stored(t, s, main.ID); got.State != pod.RunRunning || !got.StartedAt.Equal(again.StartedAt) {
				t.Errorf("started again: %+v", got)
			}
			if got, err := s.Sandbox(t.Context(), box.ID); err != nil || !got.StartedAt.Equal(box.StartedAt) || got.Run != 2 {
				t.Errorf("sandbox started again: %+v, %v", got, err)
			}
			unwritten(t, s, "an answer from before the restart", func() {
				mustObserve(t, s, pod.Facts{Containers: []pod.Container{main}, Sandboxes: []pod.Sandbox{sandboxOf(d, main.StartedAt)}, AsOf: asked})
			})
			ended := exited(again, 4, again.StartedAt.Add(jump)) // the clock jumped once more
			mustObserve(t, s, pod.Facts{Containers: []pod.Container{ended}, AsOf: c.advance(time.Second)})
			if got := stored(t, s, main.ID); got.State != pod.RunExited || got.ExitCode != 4 {
				t.Errorf("ended: %+v", got)
			}
		})
	}
}

// The wall clock is set back by ten years: what the rows say of when they
// changed is in the future, and is judged by a listing all the same.
func TestListingsJudgeRowsOfTheFuture(t *testing.T) {
	s, c, d, main := runningPod(t)
	real := s.order.now
	s.order.now = func() time.Time { return real().Add(10 * 365 * 24 * time.Hour) }
	c.advance(time.Second - 10*365*24*time.Hour)
	mustObserve(t, s, pod.Facts{Complete: true})
	if got := stored(t, s, main.ID); got.State != pod.RunGone {
		t.Errorf("%+v", got)
	}
	if _, err := s.Sandbox(t.Context(), "box-"+string(d.UID)); err == nil {
		t.Error("the sandbox is still there")
	}
}

// A reboot after which Podman, as version 5 does, calls everything exited.
func TestEndsThatNobodySawAreNoSuccess(t *testing.T) {
	for _, test := range []struct {
		name     string
		finished func(earlier, start time.Time) time.Time
		code     int
	}{
		{"no end", func(time.Time, time.Time) time.Time { return time.Time{} }, 137},
		{"only that of an earlier run", func(earlier, _ time.Time) time.Time { return earlier }, 137},
		{"it ended before the machine did", func(_, start time.Time) time.Time { return start.Add(time.Second) }, 0},
		{"it did, and the clock was set back meanwhile", func(_, start time.Time) time.Time { return start.Add(-time.Hour) }, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, c, _, main := runningPod(t)
			earlier := main.StartedAt.Add(-time.Minute)
			main.FinishedAt = earlier // a person had started it again
			mustObserve(t, s, pod.Facts{Containers: []pod.Container{main}})
			left := exited(main, 0, test.finished(earlier, main.StartedAt))
			facts := pod.Facts{Containers: []pod.Container{left}, Rebooted: true, AsOf: c.advance(time.Second)}
			mustObserve(t, s, facts)
			got := stored(t, s, main.ID)
			if got.State != pod.RunExited || got.ExitCode != test.code || got.EndCause != pod.CauseReboot || got.FinishedAt.IsZero() {
				t.Errorf("%+v; want exit code %d", got, test.code)
			}
		})
	}
}

func TestContainersBelongToTheRunOfTheirSandbox(t *testing.T) {
	const years = 10 * 365 * 24 * time.Hour
	run := func(t *testing.T, s *Store, id string, want int) {
		t.Helper()
		if got := stored(t, s, id).SandboxRun; got != want {
			t.Errorf("%s was started in run %d of its sandbox; want %d", id, got, want)
		}
	}
	dead := func(b pod.Sandbox, at time.Time) pod.Sandbox {
		b.State, b.ExitedAt, b.IPs = pod.RunExited, at, nil
		return b
	}
	t.Run("the clock is set back", func(t *testing.T) {
		s, c, d, main := runningPod(t)
		run(t, s, main.ID, 1)
		next := containerOf(d, "main", 1, c.advance(-years))
		s.order.now = func() time.Time { return c.Now().Add(2 * years) }
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{next}})
		run(t, s, next.ID, 1)
	})
	t.Run("a sandbox that was started again is looked at last", func(t *testing.T) {
		s, c, d, main := runningPod(t)
		box := sandboxOf(d, main.StartedAt)
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{dead(box, c.advance(time.Second))}})
		next := containerOf(d, "main", 1, c.advance(time.Second))
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{next}})
		run(t, s, next.ID, 2)
		box.StartedAt = next.StartedAt.Add(time.Millisecond)
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{box}})
		run(t, s, next.ID, 2)
		run(t, s, main.ID, 1)
		if got, err := s.Sandbox(t.Context(), box.ID); err != nil || got.Run != 2 {
			t.Errorf("sandbox %+v, %v", got, err)
		}
	})
	t.Run("a new sandbox is looked at last", func(t *testing.T) {
		s, c := newStore(t)
		mustSync(t, s, dirA, set(submission("web")))
		d := load(t, s, "web").Desired
		began := c.Now()
		box := sandboxOf(d, c.advance(time.Second))
		made := box
		made.State, made.StartedAt = pod.RunCreated, time.Time{}
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{made}, AsOf: began})
		main := containerOf(d, "main", 0, c.advance(time.Second))
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{main}, AsOf: began})
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{box}, AsOf: began})
		run(t, s, main.ID, 1)
		if got, err := s.Sandbox(t.Context(), box.ID); err != nil || got.Run != 1 {
			t.Errorf("sandbox %+v, %v", got, err)
		}
	})
	t.Run("a listing that knows whole seconds", func(t *testing.T) {
		s, c, d, main := runningPod(t)
		box := sandboxOf(d, main.StartedAt.Add(1234*time.Millisecond))
		for _, at := range []time.Time{box.StartedAt, box.StartedAt.Truncate(time.Second), box.StartedAt} {
			box.StartedAt = at
			c.advance(time.Second)
			mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{box}})
		}
		if got, err := s.Sandbox(t.Context(), box.ID); err != nil || got.Run != 2 {
			t.Errorf("sandbox %+v, %v", got, err)
		}
	})
	t.Run("a late answer from before its sandbox ended", func(t *testing.T) {
		s, c, d, main := runningPod(t)
		asked := c.advance(time.Second)
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{dead(sandboxOf(d, main.StartedAt), c.advance(time.Second))}})
		next := containerOf(d, "main", 1, asked)
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{next}, AsOf: asked})
		run(t, s, next.ID, 1)
	})
	t.Run("a pod restarted by hand, its sandbox looked at last", func(t *testing.T) {
		s, c, d, main := runningPod(t)
		box := sandboxOf(d, c.advance(time.Second))
		left := containerOf(d, "left", 0, main.StartedAt)
		again := main
		again.StartedAt = c.advance(time.Millisecond)
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{again, left}})
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{box}})
		run(t, s, again.ID, 2)
		run(t, s, left.ID, 1)
	})
	t.Run("a listing is all that is known", func(t *testing.T) {
		s, c := newStore(t)
		mustSync(t, s, dirA, set(submission("web")))
		d := load(t, s, "web").Desired
		cut := containerOf(d, "cut", 0, c.Now())
		box := sandboxOf(d, c.advance(time.Second))
		main := containerOf(d, "main", 0, c.advance(time.Second))
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{box}, Containers: []pod.Container{cut, main}, Complete: true})
		run(t, s, main.ID, 1)
		run(t, s, cut.ID, 0)
	})
}

// What the latest transition of a container says is true of the container.
func TestHistoryFollowsTheLatestAttempt(t *testing.T) {
	last := func(t *testing.T, s *Store) string {
		t.Helper()
		return query(t, s, `SELECT format('a%d %s>%s', attempt, "from", "to") FROM transitions WHERE container = 'main' ORDER BY rowid DESC LIMIT 1`)[0]
	}
	t.Run("a listing in which one attempt is gone and the next is there", func(t *testing.T) {
		s, c, d, main := runningPod(t)
		next := exited(containerOf(d, "main", 1, c.Now()), 3, c.Now())
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{sandboxOf(d, main.StartedAt)}, Containers: []pod.Container{next}, Complete: true})
		if got := last(t, s); got != "a1 >exited" {
			t.Error(got)
		}
	})
	t.Run("a listing of several attempts in any order", func(t *testing.T) {
		s, c := newStore(t)
		mustSync(t, s, dirA, set(submission("web")))
		d := load(t, s, "web").Desired
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{
			containerOf(d, "main", 2, c.Now()), exited(containerOf(d, "main", 0, c.Now()), 1, c.Now()), exited(containerOf(d, "main", 1, c.Now()), 1, c.Now()),
		}, Complete: true})
		if got := last(t, s); got != "a2 >running" {
			t.Error(got)
		}
	})
	t.Run("an earlier attempt that never ran is removed", func(t *testing.T) {
		s, c, d, _ := runningPod(t)
		never := containerOf(d, "main", 2, c.Now())
		never.State, never.StartedAt, never.PID = pod.RunCreated, time.Time{}, 0
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{never, containerOf(d, "main", 3, c.Now())}})
		mustObserve(t, s, pod.Facts{GoneContainers: []pod.Gone{{ID: never.ID}}})
		if got := last(t, s); got != "a3 >running" {
			t.Error(got)
		}
	})
}
