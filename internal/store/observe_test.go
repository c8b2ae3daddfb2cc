package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// sandboxOf and containerOf are what the runtime would have of the pod.
func sandboxOf(d pod.Desired, at time.Time) pod.Sandbox {
	return pod.Sandbox{
		Key: d.Key, UID: d.UID, ID: "box-" + string(d.UID), InfraID: "infra-" + string(d.UID), Name: "k8s_" + d.Name,
		Revision: d.Revision, Hash: d.Hash, State: pod.RunRunning, IPs: []string{"10.88.0.2"}, CreatedAt: at, StartedAt: at,
	}
}

func containerOf(d pod.Desired, name string, attempt int, at time.Time) pod.Container {
	c := pod.Container{
		Key: d.Key, UID: d.UID, Container: name, Kind: pod.KindContainer, ID: fmt.Sprintf("%s-%d-%s", name, attempt, d.UID),
		Name: "k8s_" + name, SandboxID: "box-" + string(d.UID), Attempt: attempt, Revision: 1, State: pod.RunRunning, Image: "busybox",
		ImageID: "sha256:1", PID: 4000 + attempt, CreatedAt: at, StartedAt: at,
	}
	for _, dc := range d.Containers {
		if dc.Name == name {
			c.Revision, c.Kind = dc.Revision, dc.Kind
		}
	}
	return c
}

func exited(c pod.Container, code int, at time.Time) pod.Container {
	c.State, c.ExitCode, c.FinishedAt, c.PID = pod.RunExited, code, at, 0
	return c
}

// runningPod is a store with a pod web that runs.
func runningPod(t *testing.T) (*Store, *clock, pod.Desired, pod.Container) {
	t.Helper()
	s, c := newStore(t)
	mustSync(t, s, dirA, set(submission("web")))
	d := load(t, s, "web").Desired
	main := containerOf(d, "main", 0, c.Now())
	mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{sandboxOf(d, c.Now())}, Containers: []pod.Container{main}})
	c.advance(time.Minute)
	return s, c, d, main
}

func stored(t *testing.T, s *Store, id string) pod.Container {
	t.Helper()
	c, err := s.Container(context.Background(), id)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestObservationsComeBackAsTheyWere(t *testing.T) {
	s, c, d, main := runningPod(t)
	snap := load(t, s, "web")
	box := sandboxOf(d, main.StartedAt)
	box.Run, main.SandboxRun = 1, 1 // which the store counts
	if len(snap.Observed.Sandboxes) != 1 || fmt.Sprint(snap.Observed.Sandboxes[0]) != fmt.Sprint(box) {
		t.Errorf("sandbox %+v, want %+v", snap.Observed.Sandboxes, box)
	}
	if len(snap.Observed.Containers) != 1 || snap.Observed.Containers[0] != main {
		t.Errorf("container %+v, want %+v", snap.Observed.Containers, main)
	}
	if snap.Desired.Containers[0].Attempt != 0 {
		t.Errorf("highest attempt %d", snap.Desired.Containers[0].Attempt)
	}
	told := heard(s)
	unwritten(t, s, "equal facts", func() {
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{box}, Containers: []pod.Container{main}, Complete: true, AsOf: c.Now()})
	})
	if n := len(told()); n != 0 {
		t.Errorf("equal facts told of %d pods", n)
	}
	if got, err := s.Sandbox(t.Context(), box.ID); err != nil || got.State != pod.RunRunning {
		t.Errorf("sandbox %+v, %v", got, err)
	}
	_, err := s.Container(t.Context(), "none")
	wantClass(t, err, pod.NotFound)
	_, err = s.Sandbox(t.Context(), "none")
	wantClass(t, err, pod.NotFound)
}

func TestLateFactsAreIgnored(t *testing.T) {
	s, c, _, main := runningPod(t)
	end := exited(main, 3, c.Now())
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{end}})
	created := main
	created.State, created.StartedAt, created.PID = pod.RunCreated, time.Time{}, 0
	for _, late := range []pod.Container{main, created} {
		told := heard(s)
		unwritten(t, s, "a late "+string(late.State), func() { mustObserve(t, s, pod.Facts{Containers: []pod.Container{late}}) })
		if len(told()) != 0 {
			t.Errorf("a late %s told someone", late.State)
		}
	}
	// A new run of the same container is not late.
	again := main
	again.StartedAt = c.advance(time.Second)
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{again}})
	if got := stored(t, s, main.ID); got.State != pod.RunRunning || got.EndCause != "" {
		t.Errorf("started again: %+v", got)
	}
}

func TestEndCausePrecedence(t *testing.T) {
	for _, test := range []struct {
		name     string
		intent   bool
		rebooted bool
		oom      bool
		given    pod.Cause
		want     pod.Cause
	}{
		{"everything", true, true, true, pod.CauseUser, pod.CauseSource},
		{"no intent", false, true, true, pod.CauseUser, pod.CauseReboot},
		{"no reboot", false, false, true, pod.CauseUser, pod.CauseOOM},
		{"no oom", false, false, false, pod.CauseUser, pod.CauseUser},
		{"nothing", false, false, false, "", pod.CauseExit},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, c, _, main := runningPod(t)
			if test.intent {
				r := recordFor(load(t, s, "web"))
				r.Intents = []pod.Intent{{ContainerID: main.ID, Cause: pod.CauseSource, Detail: "replaced"}}
				mustCommit(t, s, r)
			}
			end := exited(main, 137, c.Now())
			end.OOMKilled, end.EndCause = test.oom, test.given
			mustObserve(t, s, pod.Facts{Containers: []pod.Container{end}, Rebooted: test.rebooted})
			got := stored(t, s, main.ID)
			if got.EndCause != test.want {
				t.Errorf("cause %s, want %s", got.EndCause, test.want)
			}
			if test.intent && got.EndDetail != "replaced" {
				t.Errorf("detail %q", got.EndDetail)
			}
			// The first answer stands, whoever asks again.
			plain := exited(main, 137, c.Now())
			plain.OOMKilled = test.oom
			unwritten(t, s, "the same end", func() { mustObserve(t, s, pod.Facts{Containers: []pod.Container{plain}}) })
		})
	}
}

func TestCauseLearntLater(t *testing.T) {
	s, c, _, main := runningPod(t)
	end := exited(main, 137, c.Now())
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{end}})
	end.EndCause, end.EndDetail = pod.CauseUser, "stopped with podman"
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{end}})
	if got := stored(t, s, main.ID); got.EndCause != pod.CauseUser || got.EndDetail != "stopped with podman" {
		t.Errorf("%+v", got)
	}
	if got := query(t, s, `SELECT cause || ': ' || detail FROM transitions WHERE "to" = 'exited'`); !slices.Equal(got, []string{"user: stopped with podman"}) {
		t.Errorf("history says %v", got)
	}
	// But an intent recorded after the end did not bring it about.
	r := recordFor(load(t, s, "web"))
	r.Intents = []pod.Intent{{ContainerID: main.ID, Cause: pod.CauseAgent}}
	mustCommit(t, s, r)
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{exited(main, 1, c.Now())}})
	if got := stored(t, s, main.ID); got.EndCause != pod.CauseUser {
		t.Errorf("cause became %s", got.EndCause)
	}
}

func TestVanishedContainers(t *testing.T) {
	t.Run("the latest attempt of a wanted one stays as gone", func(t *testing.T) {
		s, c, _, main := runningPod(t)
		told := heard(s)
		mustObserve(t, s, pod.Facts{GoneContainers: []pod.Gone{{ID: main.ID}}})
		got := stored(t, s, main.ID)
		if got.State != pod.RunGone || got.EndCause != pod.CauseUser || !got.FinishedAt.IsZero() || got.PID != 0 {
			t.Errorf("%+v", got)
		}
		if len(told()) == 0 {
			t.Error("nobody was told")
		}
		unwritten(t, s, "the same again", func() {
			mustObserve(t, s, pod.Facts{GoneContainers: []pod.Gone{{ID: main.ID}}})
			mustObserve(t, s, pod.Facts{Containers: []pod.Container{main}, AsOf: c.Now().Add(-time.Second)}) // an answer from before
		})
		// The next attempt replaces it.
		d := load(t, s, "web").Desired
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{containerOf(d, "main", 1, c.Now())}})
		if o := load(t, s, "web").Observed.Containers; len(o) != 1 || o[0].Attempt != 1 {
			t.Errorf("containers %+v", o)
		}
	})
	t.Run("an earlier attempt goes", func(t *testing.T) {
		s, c, d, main := runningPod(t)
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{exited(main, 1, c.Now()), containerOf(d, "main", 1, c.Now())}})
		mustObserve(t, s, pod.Facts{GoneContainers: []pod.Gone{{ID: main.ID}}})
		_, err := s.Container(t.Context(), main.ID)
		wantClass(t, err, pod.NotFound)
	})
	t.Run("a container that nobody wants goes", func(t *testing.T) {
		s, _, _, main := runningPod(t)
		mustSync(t, s, dirA, set())
		mustObserve(t, s, pod.Facts{GoneContainers: []pod.Gone{{ID: main.ID}}})
		_, err := s.Container(t.Context(), main.ID)
		wantClass(t, err, pod.NotFound)
	})
	t.Run("a container that never ran goes", func(t *testing.T) {
		s, c := newStore(t)
		mustSync(t, s, dirA, set(submission("web")))
		idle := containerOf(load(t, s, "web").Desired, "main", 0, c.Now())
		idle.State, idle.PID, idle.StartedAt = pod.RunCreated, 0, time.Time{}
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{idle}})
		mustObserve(t, s, pod.Facts{GoneContainers: []pod.Gone{{ID: idle.ID, Cause: pod.CauseRuntime, Detail: "its sandbox could not be started"}}})
		_, err := s.Container(t.Context(), idle.ID)
		wantClass(t, err, pod.NotFound)
	})
	t.Run("a container that had ended keeps why", func(t *testing.T) {
		s, c, _, main := runningPod(t)
		end := exited(main, 7, c.Now())
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{end}})
		mustObserve(t, s, pod.Facts{GoneContainers: []pod.Gone{{ID: main.ID}}})
		if got := stored(t, s, main.ID); got.State != pod.RunGone || got.EndCause != pod.CauseExit || got.ExitCode != 7 || !got.FinishedAt.Equal(end.FinishedAt) {
			t.Errorf("%+v", got)
		}
	})
	t.Run("a container that was killed to be removed", func(t *testing.T) {
		s, c, d, main := runningPod(t)
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{exited(main, 137, c.Now())}})
		mustObserve(t, s, pod.Facts{Containers: []pod.Container{containerOf(d, "main", 1, c.Now())}}) // its successor is quick
		mustObserve(t, s, pod.Facts{GoneContainers: []pod.Gone{{ID: main.ID}}})
		if got := query(t, s, `SELECT cause || ': ' || detail FROM transitions WHERE "to" = 'exited'`); !slices.Equal(got, []string{"user: it was removed from Podman"}) {
			t.Errorf("history says %v", got)
		}
	})
	t.Run("by intent", func(t *testing.T) {
		s, _, _, main := runningPod(t)
		r := recordFor(load(t, s, "web"))
		r.Intents = []pod.Intent{{ContainerID: main.ID, Cause: pod.CauseAgent, Detail: "superseded"}}
		mustCommit(t, s, r)
		mustObserve(t, s, pod.Facts{GoneContainers: []pod.Gone{{ID: main.ID}}})
		if got := stored(t, s, main.ID); got.EndCause != pod.CauseAgent || got.EndDetail != "superseded" {
			t.Errorf("%+v", got)
		}
		if got := query(t, s, `SELECT container_id FROM intents`); len(got) != 0 {
			t.Errorf("intents left: %v", got)
		}
	})
	t.Run("with their sandbox", func(t *testing.T) {
		s, _, d, main := runningPod(t)
		mustObserve(t, s, pod.Facts{GoneSandboxes: []pod.Gone{{ID: "box-" + string(d.UID), Cause: pod.CauseUser, Detail: "podman pod rm"}}})
		o := load(t, s, "web").Observed
		if len(o.Sandboxes) != 0 || len(o.Containers) != 1 || o.Containers[0].State != pod.RunGone || o.Containers[0].EndDetail != "podman pod rm" {
			t.Errorf("%+v after %s", o, main.ID)
		}
	})
}

func TestCompleteListings(t *testing.T) {
	s, c, d, main := runningPod(t)
	asked := c.Now()
	c.advance(time.Second)
	fresh := containerOf(d, "main", 1, c.Now())
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{exited(main, 1, c.Now()), fresh}})
	// A listing that was asked for before says nothing about what came since.
	mustObserve(t, s, pod.Facts{Complete: true, AsOf: asked})
	if got := stored(t, s, fresh.ID); got.State != pod.RunRunning {
		t.Errorf("the new attempt is %s", got.State)
	}
	if got := stored(t, s, main.ID); got.State != pod.RunExited {
		t.Errorf("what changed since is %s", got.State)
	}
	if _, err := s.Sandbox(t.Context(), "box-"+string(d.UID)); err == nil {
		t.Error("the sandbox is not in the listing and is still there")
	}
	// A later one does.
	c.advance(time.Second)
	mustObserve(t, s, pod.Facts{Complete: true, AsOf: c.Now()})
	if got := stored(t, s, fresh.ID); got.State != pod.RunGone {
		t.Errorf("the new attempt is %s", got.State)
	}
	// A listing that shows it again, asked for since, is believed.
	mustObserve(t, s, pod.Facts{Complete: true, AsOf: c.advance(time.Second), Containers: []pod.Container{fresh}})
	if got := stored(t, s, fresh.ID); got.State != pod.RunRunning {
		t.Errorf("the new attempt is %s", got.State)
	}
}

func TestReboot(t *testing.T) {
	o := testOptions(t.TempDir())
	c := newClock()
	o.Now = c.Now
	s, _ := mustOpen(t, o)
	mustSync(t, s, dirA, set(submission("web", withImage("side", "x"), withImage("lost", "x"), withImage("done", "x"))))
	d := load(t, s, "web").Desired
	start := c.Now()
	main, side, lost := containerOf(d, "main", 0, start), containerOf(d, "side", 0, start), containerOf(d, "lost", 0, start)
	done := exited(containerOf(d, "done", 0, start), 0, start.Add(time.Second))
	box := sandboxOf(d, start)
	mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{box}, Containers: []pod.Container{main, side, lost, done}})
	if s.Rebooted() {
		t.Error("rebooted at first start")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}

	o.BootID = "boot-2"
	c.advance(time.Hour)
	s, _ = mustOpen(t, o)
	defer s.Close()
	if !s.Rebooted() {
		t.Fatal("the restart was not noticed")
	}
	// Podman calls what ran created or exited, and one container is lost.
	createdSide := side
	createdSide.State, createdSide.PID = pod.RunCreated, 0
	box.State = pod.RunCreated
	facts := pod.Facts{
		Sandboxes: []pod.Sandbox{box}, Containers: []pod.Container{exited(main, 0, time.Time{}), createdSide, done},
		Complete: true, Rebooted: true, AsOf: c.Now(),
	}
	mustObserve(t, s, facts)
	if s.Rebooted() {
		t.Error("still rebooted after a listing")
	}
	if got := stored(t, s, main.ID); got.ExitCode != 137 {
		t.Errorf("its end was not seen, and yet its exit code is %d", got.ExitCode)
	}
	for id, state := range map[string]pod.RunState{main.ID: pod.RunExited, side.ID: pod.RunExited, lost.ID: pod.RunGone} {
		if got := stored(t, s, id); got.State != state || got.EndCause != pod.CauseReboot {
			t.Errorf("%s is %s by %s", id, got.State, got.EndCause)
		}
	}
	if got := stored(t, s, done.ID); got.EndCause != pod.CauseExit {
		t.Errorf("what had ended before: %s", got.EndCause)
	}
	if got, err := s.Sandbox(t.Context(), box.ID); err != nil || got.State != pod.RunExited {
		t.Errorf("sandbox %+v, %v", got, err)
	}
	facts.Rebooted = false
	unwritten(t, s, "the next listing", func() { mustObserve(t, s, facts) })
}

func TestContainerEdgesAreStored(t *testing.T) {
	s, c, d, main := runningPod(t)
	end := exited(main, 3, c.Now())
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{end}})
	mustObserve(t, s, pod.Facts{GoneContainers: []pod.Gone{{ID: main.ID}}})
	got := query(t, s, `SELECT format('%s %s/%s %s %s %s>%s %s g%d a%d', machine, namespace, pod, container, pod_uid = ?, "from", "to", cause, generation, attempt) FROM transitions ORDER BY rowid`, d.UID)
	want := []string{
		"container default/web main 1 >running  g1 a0",
		"container default/web main 1 running>exited exit g1 a0",
		"container default/web main 1 exited>gone exit g1 a0",
	}
	if !slices.Equal(got, want) {
		t.Errorf("transitions\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOrphans(t *testing.T) {
	s, c := newStore(t)
	stray := pod.Desired{Key: key("stray"), UID: "stray-uid"}
	mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{sandboxOf(stray, c.Now())}, Containers: []pod.Container{containerOf(stray, "main", 0, c.Now())}})
	orphans := func() int {
		t.Helper()
		list, err := s.Orphans(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if len(list) == 1 && (len(list[0].Sandboxes) != 1 || len(list[0].Containers) != 1) {
			t.Errorf("orphan %+v", list[0])
		}
		return len(list)
	}
	mustSync(t, s, dirA, set(submission("web")))
	if orphans() != 0 {
		t.Error("orphans before the sources are known")
	}
	if err := s.Configure(t.Context(), []pod.Source{dirA, dirB, httpSrc}); err != nil {
		t.Fatal(err)
	}
	if orphans() != 0 {
		t.Error("orphans before every source has synced")
	}
	mustSync(t, s, dirB, set())
	if orphans() != 1 {
		t.Error("no orphan")
	}
}

func TestImages(t *testing.T) {
	o := testOptions(t.TempDir())
	o.NormalizeImage = func(name string) string { return "docker.io/library/" + name + ":latest" }
	s, _ := mustOpen(t, o)
	defer s.Close()
	mustSync(t, s, dirA, set(submission("web"), submission("other", withImage("main", "nginx"))))
	web := uidsOf(t, s, "web")[0]
	told := heard(s)
	images := []pod.Image{
		{ID: "1", Names: []string{"docker.io/library/busybox:latest"}, Digests: []string{"docker.io/library/busybox@sha256:11"}, SizeBytes: 5},
		{ID: "2", Names: []string{"docker.io/library/alpine:latest"}, SizeBytes: 7},
	}
	observe := func() {
		t.Helper()
		if err := s.ObserveImages(t.Context(), images); err != nil {
			t.Fatal(err)
		}
	}
	observe()
	if got := told(); !slices.Equal(got, []types.UID{web}) {
		t.Errorf("told of %v", got)
	}
	if got := load(t, s, "web").Observed.Images; len(got) != 1 || got["busybox"] != "1" {
		t.Errorf("images %v", got)
	}
	if got := load(t, s, "other").Observed.Images; len(got) != 0 {
		t.Errorf("images %v", got)
	}
	unwritten(t, s, "the same images", observe)
	images = []pod.Image{{ID: "3", Names: images[0].Names}, images[1]}
	observe()
	if got := load(t, s, "web").Observed.Images; got["busybox"] != "3" {
		t.Errorf("images %v", got)
	}
	if got := query(t, s, `SELECT id FROM observed_images ORDER BY id`); !slices.Equal(got, []string{"2", "3"}) {
		t.Errorf("images %v", got)
	}
	images = images[1:]
	observe()
	if got := told(); !slices.Equal(got, []types.UID{web, web}) {
		t.Errorf("told of %v", got)
	}
}
