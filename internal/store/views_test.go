package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// drift is what the view says, one line a row without the UID.
func drift(t *testing.T, s *Store) []string {
	t.Helper()
	return query(t, s, `SELECT format('%s/%s: %s; %s; %s', pod, container, desired, observed, action) FROM drift ORDER BY pod, container, action`)
}

func wantDrift(t *testing.T, s *Store, when string, want ...string) {
	t.Helper()
	if got := drift(t, s); !slices.Equal(got, want) {
		t.Errorf("%s: drift is\n%s\nwant\n%s", when, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestDriftOfAPodsLife(t *testing.T) {
	s, c := newStore(t)
	mustSync(t, s, dirA, set(submission("web", withInit("prepare", "busybox"))))
	wantDrift(t, s, "new",
		"web/: sandbox of revision 1; no sandbox; create sandbox",
		"web/main: running, revision 1; absent; wait for init containers",
		"web/prepare: running, revision 1; absent; pull image and start")

	if err := s.ObserveImages(t.Context(), []pod.Image{{ID: "1", Names: []string{"busybox"}}}); err != nil {
		t.Fatal(err)
	}
	d := load(t, s, "web").Desired
	box, prepare := sandboxOf(d, c.Now()), containerOf(d, "prepare", 0, c.Now())
	mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{box}, Containers: []pod.Container{prepare}})
	wantDrift(t, s, "initializing", "web/main: running, revision 1; absent; wait for init containers")

	mustObserve(t, s, pod.Facts{Containers: []pod.Container{exited(prepare, 1, c.Now())}})
	wantDrift(t, s, "initialization failed",
		"web/main: running, revision 1; absent; wait for init containers",
		"web/prepare: running, revision 1; exited; start attempt 1")

	prepare = containerOf(d, "prepare", 1, c.Now())
	main := containerOf(d, "main", 0, c.Now())
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{exited(prepare, 0, c.Now())}})
	wantDrift(t, s, "initialized", "web/main: running, revision 1; absent; start")
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{main}})
	wantDrift(t, s, "running")

	mustObserve(t, s, pod.Facts{Containers: []pod.Container{exited(main, 0, c.Now())}})
	r := recordFor(load(t, s, "web"))
	r.Backoffs = []pod.Backoff{{Container: "main", Kind: pod.BackoffCrash, Failures: 2, Until: c.Now().Add(10 * time.Second)}}
	r.Attempts = map[string]int{"main": 1}
	mustCommit(t, s, r)
	wantDrift(t, s, "ended", "web/main: running, revision 1; exited; start attempt 1")
	if until := query(t, s, `SELECT until_at FROM drift`)[0]; until != string(stampOf(c.Now().Add(10*time.Second))) {
		t.Errorf("until %s", until)
	}

	main = containerOf(d, "main", 1, c.Now())
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{main}})
	mustSync(t, s, dirA, set(submission("web", withInit("prepare", "busybox"), withImage("main", "nginx"), withImage("more", "busybox"))))
	wantDrift(t, s, "edited",
		"web/main: running, revision 2; running, revision 1; replace",
		"web/more: running, revision 1; absent; start")
	mustSync(t, s, dirA, set(submission("web", withHostNetwork, withInit("prepare", "busybox"), func(p *corev1.Pod) { p.Spec.Containers[0].Name = "other" })))
	wantDrift(t, s, "pod-wide",
		"web/: sandbox of revision 2; no sandbox; create sandbox",
		"web/: sandbox of revision 2; sandbox of revision 1; replace sandbox",
		"web/main: absent; exited, attempt 0; stop and remove",
		"web/main: absent; running, attempt 1; stop and remove",
		"web/other: running, revision 1; absent; start")

	mustSync(t, s, dirA, set())
	wantDrift(t, s, "deleted", "web/: deleted; 1 sandboxes and 4 containers; stop and remove")
	mustSync(t, s, dirA, set(submission("web")))
	wantDrift(t, s, "wanted again",
		"web/: deleted; 1 sandboxes and 4 containers; stop and remove",
		"web/: running; an earlier pod of this name is terminating; wait until it is gone")
}

func TestDriftFollowsRestartPolicy(t *testing.T) {
	for _, test := range []struct {
		policy corev1.RestartPolicy
		code   int
		gone   bool
		cause  pod.Cause
		want   bool
	}{
		{corev1.RestartPolicyAlways, 0, false, pod.CauseExit, true},
		{corev1.RestartPolicyOnFailure, 0, false, pod.CauseExit, false},
		{corev1.RestartPolicyOnFailure, 1, false, pod.CauseExit, true},
		{corev1.RestartPolicyOnFailure, 0, true, pod.CauseExit, true}, // nobody saw its end: killed
		{corev1.RestartPolicyNever, 1, false, pod.CauseExit, false},
		{corev1.RestartPolicyNever, 137, false, pod.CauseReboot, false},
		// The agent ended it, to make another.
		{corev1.RestartPolicyNever, 137, false, pod.CauseAgent, true},
		{corev1.RestartPolicyOnFailure, 0, false, pod.CauseSource, true},
	} {
		s, c := newStore(t)
		mustSync(t, s, dirA, set(submission("web", withPolicy(test.policy))))
		d := load(t, s, "web").Desired
		main := containerOf(d, "main", 0, c.Now())
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{sandboxOf(d, c.Now())}, Containers: []pod.Container{main}})
		if test.gone {
			mustObserve(t, s, pod.Facts{GoneContainers: []pod.Gone{{ID: main.ID}}})
		} else {
			end := exited(main, test.code, c.Now())
			end.EndCause = test.cause
			mustObserve(t, s, pod.Facts{Containers: []pod.Container{end}})
		}
		if got := drift(t, s); (len(got) > 0) != test.want {
			t.Errorf("%s, exit code %d, gone %t, cause %s: %v", test.policy, test.code, test.gone, test.cause, got)
		}
	}
}

func TestDriftShowsOrphans(t *testing.T) {
	s, c := newStore(t)
	if err := s.Configure(t.Context(), []pod.Source{dirA}); err != nil {
		t.Fatal(err)
	}
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{containerOf(pod.Desired{Key: key("stray"), UID: "u"}, "main", 0, c.Now())}})
	wantDrift(t, s, "before a sync", "stray/: absent; a pod that nobody wants; wait until every source has synced")
	mustSync(t, s, dirA, set())
	wantDrift(t, s, "after it", "stray/: absent; a pod that nobody wants; stop and remove")
}

func TestViewsOfARunningPod(t *testing.T) {
	s, c, d, main := runningPod(t)
	if err := s.ObserveImages(t.Context(), []pod.Image{{ID: "1", Names: []string{"busybox"}, SizeBytes: 77}}); err != nil {
		t.Fatal(err)
	}
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{exited(main, 3, c.Now()), containerOf(d, "main", 1, c.Now())}})
	r := recordFor(load(t, s, "web"))
	r.State = pod.StateRunning
	r.Status = &corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.88.0.2", ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", Ready: true, RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}},
	}}
	r.Transitions = []pod.Transition{
		{Machine: pod.MachinePod, To: "Pending", Cause: pod.CauseSource},
		{Machine: pod.MachinePod, From: "Pending", Event: "run", To: "Running", Cause: pod.CauseSource, Detail: "container main runs"},
	}
	mustCommit(t, s, r)
	for q, want := range map[string]string{
		`SELECT format('%s/%s %s %s %s %d/%d %d %s', namespace, name, source, state, phase, ready, containers, restarts, ip) FROM pods`:                              "default/web directory:/a Running Running 1/1 1 10.88.0.2",
		`SELECT format('%s/%s/%s %s %s %d %d %d %s', namespace, pod, container, kind, state, ready, restarts, attempt, coalesce(exit_code, 'runs')) FROM containers`: "default/web/main container running 1 1 1 runs",
		`SELECT format('%s %s %d %d', name, image_id, size_bytes, wanted_by) FROM images`:                                                                            "busybox 1 77 1",
		`SELECT format('%s/%s%s %s %s %s', namespace, pod, container, state, cause, detail) FROM why WHERE container = ''`:                                           "default/web Running source container main runs",
		`SELECT group_concat(name) FROM pragma_table_info('why')`:                                                                                                    "namespace,pod,container,state,since,cause,detail",
		`SELECT group_concat(name) FROM pragma_table_info('transitions')`:                                                                                            "at,namespace,pod,container,pod_uid,machine,from,event,to,cause,detail,generation,attempt",
		`SELECT group_concat(machine || ' ' || "to" ORDER BY rowid) FROM (SELECT rowid, * FROM transitions WHERE container = 'main')`:                                "container running,container exited,container running",
		`SELECT count(*) || ' ' || min(since) FROM why WHERE container = 'main'`:                                                                                     "1 " + string(stampOf(c.Now())),
		`SELECT count(*) FROM pragma_table_info('containers') WHERE name IN ('namespace', 'pod', 'container', 'pod_uid')`:                                            "4",
		`SELECT count(*) FROM sqlite_schema WHERE type = 'view' AND name IN ('pods', 'containers', 'images', 'drift', 'why')`:                                        "5",
	} {
		if got := query(t, s, q); len(got) != 1 || got[0] != want {
			t.Errorf("%s\ngives %q, want %q", q, got, want)
		}
	}
	// With a back-off and an end the container says so.
	mustObserve(t, s, pod.Facts{Containers: []pod.Container{exited(containerOf(d, "main", 1, c.Now()), 4, c.Now())}})
	r = recordFor(load(t, s, "web"))
	r.Status = &corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
		{Name: "main", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}}},
	}}
	r.Backoffs = []pod.Backoff{{Container: "main", Kind: pod.BackoffCrash, Failures: 1, Until: c.Now()}}
	mustCommit(t, s, r)
	got := query(t, s, `SELECT format('%s %s %d %s %s', state, reason, exit_code, end_cause, backoff_until_at) FROM containers`)
	if want := "exited CrashLoopBackOff 4 exit " + string(stampOf(c.Now())); got[0] != want {
		t.Errorf("container %q, want %q", got[0], want)
	}
}

// The views are read by people who wait: they must not take longer with every
// day of history.
func TestViewsAreQuickWithMuchHistory(t *testing.T) {
	s, _ := newStore(t)
	mustSync(t, s, dirA, fifty())
	err := s.Write(t.Context(), "history", func(tx *WriteTx) error {
		_, err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50000)
			INSERT INTO transitions (at, namespace, pod, container, pod_uid, machine, "from", event, "to", cause, detail, generation, attempt)
			SELECT ?, 'default', 'p' || (i % 50), 'main', 'u', 'container', 'Running', 'exit', 'Terminated', 'exit', 'exit code 1', 1, i FROM n`, tx.now())
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, q := range []string{`SELECT count(*) FROM drift`, `SELECT count(*) FROM pods`, `SELECT count(*) FROM containers`, `SELECT count(cause) FROM why`, `SELECT count(cause) FROM why WHERE pod = 'p7' AND namespace = 'default'`} {
		start := time.Now()
		query(t, s, q)
		took := time.Since(start)
		t.Logf("%s: %s", q, took)
		if took > 2*time.Second {
			t.Errorf("%s took %s", q, took)
		}
	}
}
