package runtimetest_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const busybox = "docker.io/library/busybox:latest"

// bench is a fake with one pod "web" whose sandbox runs, in a bubble of fake
// time.
type bench struct {
	*testing.T
	f     *runtimetest.Fake
	id    pod.Identity
	box   pod.Sandbox
	image string
}

func inBubble(t *testing.T, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{T: t, f: runtimetest.New(runtimetest.Options{Node: "node-1"})}
		defer b.f.Close()
		b.image = b.f.Images().Add(busybox)
		b.id = pod.Identity{
			Key: pod.Key{Namespace: "default", Name: "web"}, UID: "u", Node: "node-1",
			Kind: pod.KindSandbox, Container: pod.SandboxContainerName, Revision: 1,
		}
		box, err := b.f.CreateSandbox(t.Context(), pod.SandboxSpec{Identity: b.id})
		b.must(err)
		b.must(b.f.StartSandbox(t.Context(), box.ID))
		b.box, err = b.f.InspectSandbox(t.Context(), box.ID)
		b.must(err)
		test(b)
	})
}

func (b *bench) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

func (b *bench) spec(name string, attempt int) pod.ContainerSpec {
	id := b.id
	id.Kind, id.Container, id.Attempt = pod.KindContainer, name, attempt
	return pod.ContainerSpec{Identity: id, SandboxID: b.box.ID, Image: busybox, ImageID: b.image}
}

func (b *bench) create(name string, attempt int) (pod.Container, error) {
	return b.f.CreateContainer(b.Context(), b.spec(name, attempt))
}

func (b *bench) start(name string, attempt int) pod.Container {
	b.Helper()
	c, err := b.create(name, attempt)
	b.must(err)
	c, err = b.f.StartContainer(b.Context(), c.ID)
	b.must(err)
	return c
}

func TestFaultsCountTheCallsThatTheyMatch(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.f.Inject(runtimetest.Fault{Op: runtimetest.OpCreateContainer, Container: "a", After: 1, Times: 2, Class: pod.Internal})
		var got []pod.Class
		for attempt := range 5 {
			_, err := b.create("other", attempt)
			b.must(err)
			_, err = b.create("a", attempt)
			got = append(got, pod.ClassOf(err))
		}
		if want := []pod.Class{"", pod.Internal, pod.Internal, "", ""}; !slices.Equal(got, want) {
			b.Errorf("classes %q; want %q", got, want)
		}
		b.f.Inject(runtimetest.Fault{Pod: "web", Class: pod.Conflict}, runtimetest.Fault{Class: pod.Internal})
		if _, err := b.create("a", 9); pod.ClassOf(err) != pod.Conflict {
			b.Errorf("%v; want what the first of two faults says", err)
		}
		b.f.ClearFaults()
		_, err := b.create("a", 9)
		b.must(err)
	})
}

func TestFaultsOfTheAnswerAndOfTheCall(t *testing.T) {
	for _, tc := range []struct {
		name    string
		fault   runtimetest.Fault
		class   pod.Class
		applied bool
		took    time.Duration
	}{
		{"fails", runtimetest.Fault{Class: pod.Internal}, pod.Internal, false, 0},
		{"fails late", runtimetest.Fault{Class: pod.Internal, Delay: time.Second}, pod.Internal, false, time.Second},
		{"is slow", runtimetest.Fault{Delay: time.Second}, "", true, time.Second},
		{"hangs", runtimetest.Fault{Hang: true}, pod.Unavailable, false, time.Minute},
		{"is carried out and reported as failed", runtimetest.Fault{Class: pod.Internal, Applied: true}, pod.Internal, true, 0},
		{"is carried out and hangs", runtimetest.Fault{Hang: true, Applied: true}, pod.Unavailable, true, time.Minute},
		{"lies", runtimetest.Fault{Lie: true}, "", false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				c, err := b.create("a", 0)
				b.must(err)
				tc.fault.Op = runtimetest.OpStartContainer
				b.f.Inject(tc.fault)
				ctx, cancel := context.WithTimeout(b.Context(), time.Minute)
				defer cancel()
				begun := time.Now()
				_, err = b.f.StartContainer(ctx, c.ID)
				if pod.ClassOf(err) != tc.class {
					b.Errorf("error %v; want class %q", err, tc.class)
				}
				if b.f.Runs(c.ID) != tc.applied {
					b.Errorf("it runs: %v; want %v", b.f.Runs(c.ID), tc.applied)
				}
				if took := time.Since(begun); took != tc.took {
					b.Errorf("it took %s; want %s", took, tc.took)
				}
			})
		})
	}
}

func TestDelayedAnswerTellsWhatWasThen(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.f.Inject(runtimetest.Fault{Op: runtimetest.OpList, Applied: true, Delay: time.Minute})
		time.AfterFunc(time.Second, func() { _, _ = b.create("a", 0) })
		_, containers, err := b.f.List(b.Context())
		b.must(err)
		if len(containers) > 0 {
			b.Errorf("listed %v", containers)
		}
	})
}

func TestWhatWasStartedDiesLater(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.f.Inject(runtimetest.Fault{Op: runtimetest.OpStartContainer, Times: 1, DieAfter: time.Minute})
		c := b.start("a", 0)
		time.Sleep(time.Minute - 1)
		if !b.f.Runs(c.ID) {
			b.Error("it died early")
		}
		time.Sleep(time.Second)
		if got := b.f.Containers()[0]; got.State != pod.RunExited || got.ExitCode != 137 || got.FinishedAt.Sub(got.StartedAt) != time.Minute {
			b.Errorf("ended as %#v", got)
		}
	})
}

func TestSilentCallsAreNotReported(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.f.Inject(runtimetest.Fault{Container: "a", Silent: true})
		before := len(b.f.Reported())
		c := b.start("a", 0)
		b.must(b.f.RemoveContainer(b.Context(), c.ID))
		if e := b.f.Reported()[before:]; len(e) > 0 {
			b.Errorf("reported %+v", e)
		}
		b.f.ClearFaults()
		c = b.start("a", 1)
		b.f.Exit(c.ID, 0)
		if e := b.f.Reported()[before:]; len(e) != 3 {
			b.Errorf("reported %+v; want created, started, died", e)
		}
	})
}

func TestScriptsAreTakenInTurn(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.f.SetScript("a", runtimetest.Script{Lives: time.Second, ExitCode: 1}, runtimetest.Script{Lives: time.Second, OOM: true}, runtimetest.Script{})
		b.f.SetScript("web/b", runtimetest.Script{Broken: "no such file"})
		for attempt, want := range []pod.Container{{State: pod.RunExited, ExitCode: 1}, {State: pod.RunExited, ExitCode: 137, OOMKilled: true}, {State: pod.RunRunning}} {
			id := b.start("a", attempt).ID
			time.Sleep(time.Minute)
			got, err := b.f.InspectContainer(b.Context(), id)
			b.must(err)
			if got.State != want.State || got.ExitCode != want.ExitCode || got.OOMKilled != want.OOMKilled {
				b.Errorf("attempt %d is %#v", attempt, got)
			}
		}
		c, err := b.create("b", 0)
		b.must(err)
		if got, err := b.f.StartContainer(b.Context(), c.ID); pod.ClassOf(err) != pod.Invalid || got.ID != c.ID {
			b.Errorf("started %#v, error %v", got, err)
		}
	})
}

func TestCallsAreLoggedAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := runtimetest.New(runtimetest.Options{Latency: runtimetest.PodmanLatency})
		defer f.Close()
		var all sync.WaitGroup
		for range 5 {
			all.Go(func() { _, _, _ = f.List(t.Context()) })
		}
		all.Wait()
		_, err := f.ListImages(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if n := f.Parallel(runtimetest.OpList); n != 5 {
			t.Errorf("%d listings at a time; want 5", n)
		}
		if n := f.Parallel(runtimetest.OpList, runtimetest.OpListImages); n != 5 {
			t.Errorf("%d calls at a time; the last came after the others", n)
		}
		calls := f.Calls(runtimetest.OpList)
		if len(calls) != 5 || calls[0].Ended.Sub(calls[0].Begun) != runtimetest.PodmanLatency[runtimetest.OpList] {
			t.Errorf("calls %+v", calls)
		}
	})
}

func TestTwoOfOneContainerAreNoticed(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.start("a", 0)
		b.start("b", 0)
		if v := b.f.Violations(); len(v) > 0 {
			b.Errorf("violations %q", v)
		}
		b.start("a", 1)
		if v := b.f.Violations(); len(v) != 1 {
			b.Errorf("violations %q; want one", v)
		}
		if live := b.f.Live("u", "a"); len(live) != 2 {
			b.Errorf("live %v", live)
		}
	})
}

func TestDeadInfraContainerTakesTheNetworkAlong(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.start("a", 0)
		created, err := b.create("b", 0)
		b.must(err)
		if !b.f.Connected(c.ID) {
			b.Error("no network to begin with")
		}
		b.f.KillProcess(b.box.InfraID)
		if !b.f.Runs(c.ID) || b.f.Connected(c.ID) {
			b.Errorf("runs %v, connected %v", b.f.Runs(c.ID), b.f.Connected(c.ID))
		}
		if _, err := b.f.StartContainer(b.Context(), created.ID); pod.ClassOf(err) != pod.Conflict {
			b.Errorf("started without a network: %v", err)
		}
		b.must(b.f.StartSandbox(b.Context(), b.box.ID))
		if b.f.Connected(c.ID) {
			b.Error("it is in a network that was made after it")
		}
		_, err = b.f.StartContainer(b.Context(), created.ID)
		b.must(err)
		if !b.f.Connected(created.ID) {
			b.Error("the new one is not")
		}
	})
}

func TestRebootEndsEverythingWithoutAWord(t *testing.T) {
	for _, left := range []pod.RunState{pod.RunCreated, pod.RunExited} {
		t.Run(string(left), func(t *testing.T) {
			inBubble(t, func(b *bench) {
				b.f.SetScript("a", runtimetest.Script{Lives: time.Minute})
				c := b.start("a", 0)
				before := len(b.f.Reported())
				broken := make(chan error, 1)
				go func() {
					broken <- b.f.Events(b.Context(), time.Time{}, func() {}, func(pod.RuntimeEvent) {})
				}()
				synctest.Wait()
				b.f.Reboot(left)
				if err := <-broken; pod.ClassOf(err) != pod.Unavailable {
					b.Errorf("the stream ended with %v", err)
				}
				time.Sleep(time.Hour)
				if got := b.f.Containers()[0]; got.State != left || !got.StartedAt.Equal(c.StartedAt) || b.f.Sandboxes()[0].State != left {
					b.Errorf("left as %#v", got)
				}
				if n := len(b.f.Reported()); n != before {
					b.Errorf("%d events of it", n-before)
				}
			})
		})
	}
}

func TestHandsLeaveTheirMark(t *testing.T) {
	for _, tc := range []struct {
		name string
		do   func(*runtimetest.Fake, string)
		want []pod.EventKind
	}{
		{"stop", (*runtimetest.Fake).StopByHand, []pod.EventKind{pod.EventDied, pod.EventStopped}},
		{"kill", (*runtimetest.Fake).KillByHand, []pod.EventKind{pod.EventStopped, pod.EventDied}},
		{"signal", (*runtimetest.Fake).SignalByHand, []pod.EventKind{pod.EventStopped}},
		{"oom", (*runtimetest.Fake).OOM, []pod.EventKind{pod.EventOOM, pod.EventDied}},
		{"remove", (*runtimetest.Fake).RemoveBehind, []pod.EventKind{pod.EventDied, pod.EventRemoved}},
		{"pause", (*runtimetest.Fake).Pause, []pod.EventKind{pod.EventPaused}},
		{"start", (*runtimetest.Fake).StartByHand, nil}, // it runs already
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				c := b.start("a", 0)
				before := len(b.f.Reported())
				tc.do(b.f, c.ID)
				var got []pod.EventKind
				for _, e := range b.f.Reported()[before:] {
					if e.ID != c.ID || e.SandboxID != "" {
						b.Errorf("event %+v", e)
					}
					got = append(got, e.Kind)
				}
				if !slices.Equal(got, tc.want) {
					b.Errorf("reported %v; want %v", got, tc.want)
				}
			})
		})
	}
}

func TestHungServiceKeepsEventsForLater(t *testing.T) {
	inBubble(t, func(b *bench) {
		c := b.start("a", 0)
		told := make(chan pod.RuntimeEvent, 8)
		go func() { _ = b.f.Events(b.Context(), time.Time{}, func() {}, func(e pod.RuntimeEvent) { told <- e }) }()
		synctest.Wait()
		b.f.HangService()
		b.f.Exit(c.ID, 0)
		answered := make(chan error, 1)
		go func() { _, _, err := b.f.List(b.Context()); answered <- err }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(told)+len(answered) > 0 {
			b.Error("a hung service answered")
		}
		b.f.StartService()
		b.must(<-answered)
		if e := <-told; e.Kind != pod.EventDied {
			b.Errorf("told of %+v", e)
		}
		b.f.StopService()
		if _, _, err := b.f.List(b.Context()); pod.ClassOf(err) != pod.Unavailable {
			b.Errorf("listed with no service: %v", err)
		}
	})
}

func TestRegistries(t *testing.T) {
	const image = "example.com/app:1"
	for _, tc := range []struct {
		name     string
		present  bool
		policy   corev1.PullPolicy
		registry runtimetest.Registry
		class    pod.Class
		pulled   bool
		warned   bool
		took     time.Duration
	}{
		{"present", true, corev1.PullIfNotPresent, runtimetest.Registry{Answer: runtimetest.RegistryHas, Takes: time.Minute}, "", false, false, 0},
		{"pulled", false, corev1.PullIfNotPresent, runtimetest.Registry{Answer: runtimetest.RegistryHas, Takes: time.Minute}, "", true, false, time.Minute},
		{"pulled again", true, corev1.PullAlways, runtimetest.Registry{Answer: runtimetest.RegistryHas}, "", true, false, 0},
		{"not there", false, corev1.PullAlways, runtimetest.Registry{Answer: runtimetest.RegistryHasNot}, pod.Invalid, false, false, 0},
		{"denied", true, corev1.PullAlways, runtimetest.Registry{Answer: runtimetest.RegistryDenies}, pod.Invalid, false, false, 0},
		{"unreachable", false, corev1.PullAlways, runtimetest.Registry{Takes: 5 * time.Second}, pod.Unavailable, false, false, 5 * time.Second},
		{"unreachable and present", true, corev1.PullAlways, runtimetest.Registry{}, "", false, true, 0},
		{"never", false, corev1.PullNever, runtimetest.Registry{Answer: runtimetest.RegistryHas}, pod.NotFound, false, false, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inBubble(t, func(b *bench) {
				want := ""
				if tc.present {
					want = b.f.Images().Add(image)
				}
				b.f.Images().SetRegistry(image, tc.registry)
				begun := time.Now()
				got, err := b.f.Images().Ensure(b.Context(), image, tc.policy)
				if pod.ClassOf(err) != tc.class || got.Pulled != tc.pulled || (got.Warning != "") != tc.warned || time.Since(begun) != tc.took {
					b.Errorf("got %+v, error %v after %s", got, err, time.Since(begun))
				}
				if tc.present && err == nil && got.ID != want {
					b.Errorf("image %q; want the present one, %q", got.ID, want)
				}
				if n := b.f.Images().Pulls(); (n == 1) != tc.pulled {
					b.Errorf("%d pulls", n)
				}
			})
		})
	}
}

func TestCancelledPullEnds(t *testing.T) {
	inBubble(t, func(b *bench) {
		b.f.Images().SetRegistry("example.com/app:1", runtimetest.Registry{Answer: runtimetest.RegistryHas, Takes: time.Hour})
		ctx, cancel := context.WithTimeout(b.Context(), time.Second)
		defer cancel()
		_, err := b.f.Images().Ensure(ctx, "example.com/app:1", corev1.PullAlways)
		if !errors.Is(err, pod.Unavailable) || !errors.Is(err, context.DeadlineExceeded) {
			b.Errorf("error %v", err)
		}
	})
}

func TestVolumes(t *testing.T) {
	inBubble(t, func(b *bench) {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web", UID: "u"}, Spec: corev1.PodSpec{Volumes: []corev1.Volume{{Name: "data"}}}}
		paths, err := b.f.Volumes().Ensure(b.Context(), p)
		b.must(err)
		if paths["data"] == "" || !slices.Equal(b.f.Volumes().Left(), []string{"u"}) {
			b.Errorf("paths %v, left %v", paths, b.f.Volumes().Left())
		}
		b.f.Inject(runtimetest.Fault{Op: runtimetest.OpRemoveVolumes, Pod: "web", Times: 1, Class: pod.Internal})
		if err := b.f.Volumes().Remove(b.Context(), "u"); pod.ClassOf(err) != pod.Internal {
			b.Errorf("error %v", err)
		}
		b.must(b.f.Volumes().Remove(b.Context(), "u"))
		if left := b.f.Volumes().Left(); len(left) > 0 {
			b.Errorf("left %v", left)
		}
	})
}
