package store

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

func TestSyncCreatesEditsAndRemoves(t *testing.T) {
	s, c := newStore(t)
	told := heard(s)

	r := mustSync(t, s, dirA, set(submission("web"), submission("db")))
	if !slices.Equal(r.Created, []pod.Key{key("web"), key("db")}) {
		t.Fatalf("created %v", r.Created)
	}
	web := load(t, s, "web").Desired
	if got := revisions(web); got != "g1 r1 main:1" {
		t.Errorf("created at %s", got)
	}
	if web.Pod.UID != web.UID || web.Source != dirA || web.Unit != "web.yaml" || web.State != pod.StateNone || web.Containers[0].Attempt != -1 {
		t.Errorf("created as %+v", web)
	}
	if n := len(told()); n != 2 {
		t.Errorf("told of %d pods, want 2", n)
	}

	c.advance(time.Second)
	r = mustSync(t, s, dirA, set(submission("web", withImage("main", "nginx"))))
	if len(r.Updated) != 1 || len(r.Removed) != 1 || r.Removed[0] != key("db") {
		t.Fatalf("edited: %+v", r)
	}
	edited := load(t, s, "web").Desired
	if edited.UID != web.UID {
		t.Error("an edit changed the UID")
	}
	if got := revisions(edited); got != "g2 r1 main:2" {
		t.Errorf("edited to %s", got)
	}
	db := load(t, s, "db").Desired
	if db.Deletion == nil || db.Deletion.Cause != pod.CauseSource || db.Deletion.Grace != 30*time.Second || !db.Deletion.RequestedAt.Equal(c.Now()) {
		t.Errorf("removed with %+v", db.Deletion)
	}
	if p := db.Pod; p.DeletionTimestamp == nil || !p.DeletionTimestamp.Time.Equal(c.Now().Add(30*time.Second)) {
		t.Errorf("deletion timestamp %v", p.DeletionTimestamp)
	}
	if n := len(told()); n != 2 {
		t.Errorf("told of %d pods, want 2", n)
	}
}

// TestUnchangedSyncWritesNothing guards against k3s#11313, microk8s#3064.
func TestUnchangedSyncWritesNothing(t *testing.T) {
	s, c := newStore(t)
	mustSync(t, s, dirB, set(submission("web")))
	refused := pod.Rejection{Unit: "x.yaml", Place: "x.yaml", Reason: pod.RejectedInvalid, Errors: []pod.FieldError{{Field: "spec", Message: "no", Line: 3}}}
	full := pod.SourceSet{Pods: []pod.Submission{submission("a"), submission("b"), submission("web")}, Rejections: []pod.Rejection{refused}}
	mustSync(t, s, dirA, full)
	told := heard(s)
	want := []string{
		"default|web|directory:/a (web.yaml): metadata.name: pod default/web belongs to directory:/b (web.yaml); this one takes over when that one is removed",
		"||directory:/a (x.yaml): spec: no",
	}
	if got := query(t, s, `SELECT namespace || '|' || pod || '|' || message FROM events WHERE reason = 'ManifestRejected' ORDER BY 1`); !slices.Equal(got, want) {
		t.Errorf("events %q", got)
	}
	at := c.advance(20 * time.Second)
	unwritten(t, s, "an unchanged sync", func() {
		r := mustSync(t, s, dirA, full)
		if len(r.Unchanged) != 2 || len(r.Conflicts) != 1 {
			t.Errorf("unchanged sync: %+v", r)
		}
	})
	if n := len(told()); n != 0 {
		t.Errorf("an unchanged sync told of %d pods", n)
	}
	list, err := s.Sources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a := list[0]; a.ID != dirA.ID || !a.LastSync.Equal(at) || !a.LastChange.Equal(at.Add(-20*time.Second)) || a.Pods != 2 || a.Rejections != 2 {
		t.Errorf("source is %+v", a)
	}
}

func TestRevisionsFollowTheDifference(t *testing.T) {
	two := []option{withImage("side", "nginx"), withInit("prepare", "busybox")}
	for _, test := range []struct {
		name string
		edit []option
		want string
	}{
		{"one container", append(slices.Clone(two), withImage("side", "nginx:2")), "g2 r1 prepare:1 main:1 side:2"},
		{"a container added", append(slices.Clone(two), withImage("more", "nginx")), "g2 r1 prepare:1 main:1 side:1 more:1"},
		{"a container removed", []option{withInit("prepare", "busybox")}, "g2 r1 prepare:1 main:1"},
		{"pod-wide", append(slices.Clone(two), withHostNetwork), "g2 r2 prepare:2 main:2 side:2"},
		{"an init container", []option{withImage("side", "nginx"), withInit("prepare", "nginx")}, "g2 r2 prepare:2 main:2 side:2"},
		{"a default written out", append(slices.Clone(two), withPolicy(corev1.RestartPolicyAlways)), "g2 r1 prepare:1 main:1 side:1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s, _ := newStore(t)
			mustSync(t, s, dirA, set(submission("web", two...)))
			mustSync(t, s, dirA, set(submission("web", test.edit...)))
			if got := revisions(load(t, s, "web").Desired); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestContainerThatComesBackGoesOnCounting(t *testing.T) {
	s, _ := newStore(t)
	with := submission("web", withImage("side", "nginx"))
	mustSync(t, s, dirA, set(with))
	r := recordFor(load(t, s, "web"))
	r.Attempts = map[string]int{"side": 3}
	mustCommit(t, s, r)
	mustSync(t, s, dirA, set(submission("web")))
	if got := revisions(load(t, s, "web").Desired); got != "g2 r1 main:1" {
		t.Fatalf("removed: %s", got)
	}
	mustSync(t, s, dirA, set(with))
	d := load(t, s, "web").Desired
	if got := revisions(d); got != "g3 r1 main:1 side:2" || d.Containers[1].Attempt != 3 {
		t.Errorf("came back as %s, attempt %d", got, d.Containers[1].Attempt)
	}
}

// A new version of podstead with other defaults must not restart anything.
// See kubernetes#116080, kubernetes#67537.
func TestNewDefaultsRestartNothing(t *testing.T) {
	o := testOptions(t.TempDir())
	s, _ := mustOpen(t, o)
	mustSync(t, s, dirA, set(submission("web")))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.Restore = func(data []byte) (*corev1.Pod, error) {
		p, err := restoreManifest(data)
		if err == nil {
			p.Spec.DNSPolicy = corev1.DNSClusterFirst
		}
		return p, err
	}
	s, _ = mustOpen(t, o)
	defer s.Close()
	edit := submission("web")
	edit.Manifest = append(edit.Manifest, '\n')
	edit.Hash = "other"
	edit.Pod.Spec.DNSPolicy = corev1.DNSClusterFirst
	mustSync(t, s, dirA, set(edit))
	if got := revisions(load(t, s, "web").Desired); got != "g2 r1 main:1" {
		t.Errorf("after an upgrade: %s", got)
	}
}

func TestUnreadableGenerationIsReplacedWhole(t *testing.T) {
	o := testOptions(t.TempDir())
	s, _ := mustOpen(t, o)
	mustSync(t, s, dirA, set(submission("web")))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	o.Restore = func(data []byte) (*corev1.Pod, error) {
		if strings.Contains(string(data), "busybox") {
			return nil, errors.New("not supported any more")
		}
		return restoreManifest(data)
	}
	s, _ = mustOpen(t, o)
	defer s.Close()
	if d := load(t, s, "web").Desired; d.Unreadable != "not supported any more" || d.Pod.Name != "web" {
		t.Errorf("loaded as %+v", d)
	}
	if list, err := s.Pods(t.Context(), ""); err != nil || len(list) != 1 || list[0].Pod.Spec.Containers[0].Image != "busybox" || list[0].Pod.UID == "" {
		t.Errorf("shown as %+v, %v", list, err)
	}
	mustSync(t, s, dirA, set(submission("web", withImage("main", "nginx"))))
	if got := revisions(load(t, s, "web").Desired); got != "g2 r2 main:2" {
		t.Errorf("replaced as %s", got)
	}
}

func TestIncompleteUnitsKeepTheirPods(t *testing.T) {
	s, _ := newStore(t)
	mustSync(t, s, dirB, set(submission("taken")))
	mustSync(t, s, dirA, set(submission("web"), submission("db"), in("web.yaml", submission("taken"))))
	r := mustSync(t, s, dirA, pod.SourceSet{Incomplete: []string{"web.yaml"}})
	if !slices.Equal(r.Removed, []pod.Key{key("db")}) {
		t.Errorf("removed %v", r.Removed)
	}
	if load(t, s, "web").Desired.Deletion != nil {
		t.Error("a pod of a broken file was deleted")
	}
	if got := query(t, s, `SELECT pod FROM rejections`); !slices.Equal(got, []string{"taken"}) {
		t.Errorf("waiting: %v", got)
	}
	// The file is whole again, without the pod.
	if r := mustSync(t, s, dirA, set()); !slices.Equal(r.Removed, []pod.Key{key("web")}) {
		t.Errorf("removed %v", r.Removed)
	}
}

// TestOneSourceDoesNotPruneAnother guards against kubernetes#59275.
func TestOneSourceDoesNotPruneAnother(t *testing.T) {
	s, _ := newStore(t)
	mustSync(t, s, dirA, set(submission("a")))
	mustSync(t, s, dirB, set(submission("b")))
	if err := s.SourceFailed(t.Context(), dirA, errors.New("no route")); err != nil {
		t.Fatal(err)
	}
	r := mustSync(t, s, dirB, set())
	if !slices.Equal(r.Removed, []pod.Key{key("b")}) || load(t, s, "a").Desired.Deletion != nil {
		t.Errorf("removed %v", r.Removed)
	}
	list, err := s.Sources(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if list[0].LastError != "no route" || !list[0].Synced {
		t.Errorf("source is %+v", list[0])
	}
	unwritten(t, s, "the same failure", func() {
		if err := s.SourceFailed(t.Context(), dirA, errors.New("no route")); err != nil {
			t.Fatal(err)
		}
	})
	mustSync(t, s, dirA, set(submission("a")))
	if got := query(t, s, `SELECT last_error FROM sources WHERE id = ?`, dirA.ID); got[0] != "" {
		t.Errorf("error after a sync: %q", got[0])
	}
}

func TestSecondSourceOfANameWaits(t *testing.T) {
	s, _ := newStore(t)
	mustSync(t, s, dirA, set(in("first.yaml", submission("web"))))
	owner := uidsOf(t, s, "web")[0]
	loser := in("second.yaml", submission("web", withImage("main", "nginx")))
	loser.Warnings = []string{"spec.subdomain has no effect"}
	r := mustSync(t, s, dirB, set(loser))
	if len(r.Created) != 0 || len(r.Conflicts) != 1 || !strings.Contains(r.Conflicts[0].Errors[0].Message, "directory:/a (first.yaml)") {
		t.Fatalf("second source: %+v", r)
	}
	list, err := s.Rejections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Source != dirB.ID || !list[0].Waits || list[0].Place != "second.yaml" || list[0].Reason != pod.RejectedConflict {
		t.Fatalf("rejections %+v", list)
	}

	told := heard(s)
	mustSync(t, s, dirA, set())
	next := load(t, s, "web")
	if next.Desired.Source != dirB || next.Predecessor != owner || next.Desired.Pod.Spec.Containers[0].Image != "nginx" {
		t.Errorf("successor: %+v", next)
	}
	if got := told(); !slices.Contains(got, owner) || !slices.Contains(got, next.Desired.UID) {
		t.Errorf("told of %v", got)
	}
	if got := query(t, s, `SELECT message FROM events WHERE pod_uid = ?`, next.Desired.UID); !slices.Equal(got, loser.Warnings) {
		t.Errorf("warnings %v", got)
	}
	// The owner's file comes back: it is second now.
	if r := mustSync(t, s, dirA, set(submission("web"))); len(r.Conflicts) != 1 {
		t.Errorf("the former owner: %+v", r)
	}
	snap, err := s.Load(t.Context(), owner)
	if err != nil {
		t.Fatal(err)
	}
	forget := recordFor(snap)
	forget.Forget = true
	mustCommit(t, s, forget)
	if got := told(); !slices.Contains(got, next.Desired.UID) {
		t.Errorf("forgetting told of %v", got)
	}
	if p := load(t, s, "web").Predecessor; p != "" {
		t.Errorf("predecessor %s is gone", p)
	}
}

func TestThirdInLineLearnsWhoOwnsTheName(t *testing.T) {
	s, _ := newStore(t)
	dirC := pod.Source{ID: "directory:/c", Kind: pod.SourceDirectory, Location: "/c"}
	mustSync(t, s, dirA, set(submission("web")))
	mustSync(t, s, dirB, set(in("b.yaml", submission("web"))))
	mustSync(t, s, dirC, set(in("c.yaml", submission("web"))))
	mustSync(t, s, dirA, set())
	list, err := s.Rejections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Source != dirC.ID || !strings.Contains(list[0].Errors[0].Message, "directory:/b (b.yaml)") {
		t.Errorf("rejections %+v", list)
	}
	unwritten(t, s, "the third's next sync", func() { mustSync(t, s, dirC, set(in("c.yaml", submission("web")))) })
}

func TestOneNameTwiceInASource(t *testing.T) {
	s, _ := newStore(t)
	a, b := in("a.yaml", submission("web")), in("b.yaml", submission("web", withImage("main", "nginx")))
	r := mustSync(t, s, dirA, set(b))
	if len(r.Created) != 1 {
		t.Fatal(r)
	}
	uid := uidsOf(t, s, "web")[0]
	// b has it, though a comes first now.
	r = mustSync(t, s, dirA, set(a, b))
	if len(r.Unchanged) != 1 || len(r.Conflicts) != 1 || r.Conflicts[0].Place != "a.yaml" {
		t.Fatalf("both: %+v", r)
	}
	// b is broken: it keeps its pod, and a goes on waiting.
	r = mustSync(t, s, dirA, pod.SourceSet{Pods: []pod.Submission{a}, Incomplete: []string{"b.yaml"}})
	if len(r.Updated)+len(r.Removed) != 0 || len(r.Conflicts) != 1 || !strings.Contains(r.Conflicts[0].Errors[0].Message, "b.yaml") {
		t.Fatalf("b is broken: %+v", r)
	}
	// b is gone: the same pod, edited.
	r = mustSync(t, s, dirA, set(a))
	if len(r.Updated) != 1 || uidsOf(t, s, "web")[0] != uid {
		t.Fatalf("b is gone: %+v", r)
	}
}

func TestRenamedFileChangesNothingButThePlace(t *testing.T) {
	s, _ := newStore(t)
	mustSync(t, s, dirA, set(submission("web")))
	told := heard(s)
	r := mustSync(t, s, dirA, set(in("other.yaml", submission("web"))))
	d := load(t, s, "web").Desired
	if len(r.Unchanged) != 1 || d.Unit != "other.yaml" || revisions(d) != "g1 r1 main:1" || len(told()) != 0 {
		t.Errorf("renamed: %+v, %s in %s", r, revisions(d), d.Unit)
	}
}

func TestStaticUIDsFollowFromThePlace(t *testing.T) {
	first, _ := newStore(t)
	second, _ := newStore(t)
	mustSync(t, first, dirA, set(submission("web")))
	mustSync(t, second, dirA, set(submission("web")))
	mustSync(t, second, dirB, set(submission("other")))
	one := load(t, first, "web").Desired
	if other := load(t, second, "web").Desired; one.UID != other.UID {
		t.Errorf("%s and %s", one.UID, other.UID)
	}
	// Removed and added again while it terminates: another incarnation.
	mustSync(t, first, dirA, set())
	mustSync(t, first, dirA, set(submission("web")))
	again := load(t, first, "web")
	if again.Desired.UID == one.UID || again.Desired.Incarnation != 2 || again.Predecessor != one.UID {
		t.Errorf("again: %s, incarnation %d, after %s", again.Desired.UID, again.Desired.Incarnation, again.Predecessor)
	}
}

func TestRetiredSourcesLoseTheirPods(t *testing.T) {
	s, _ := newStore(t)
	both := []pod.Source{dirA, dirB, httpSrc}
	if err := s.Configure(t.Context(), both); err != nil {
		t.Fatal(err)
	}
	mustSync(t, s, dirA, set(submission("a"), submission("shared")))
	mustSync(t, s, dirB, set(submission("b"), submission("shared")))
	mustSubmit(t, s, submission("h"))
	unwritten(t, s, "the same configuration", func() {
		if err := s.Configure(t.Context(), both); err != nil {
			t.Fatal(err)
		}
	})
	if err := s.Configure(t.Context(), []pod.Source{dirB, httpSrc}); err != nil {
		t.Fatal(err)
	}
	a := load(t, s, "a")
	if d := a.Desired.Deletion; d == nil || !strings.Contains(d.Detail, "no longer configured") {
		t.Errorf("deletion %+v", d)
	}
	if shared := load(t, s, "shared").Desired; shared.Source != dirB || shared.Deletion != nil {
		t.Errorf("shared belongs to %s", shared.Source.ID)
	}
	for _, name := range []string{"b", "h"} {
		if load(t, s, name).Desired.Deletion != nil {
			t.Errorf("%s was deleted", name)
		}
	}
	for _, uid := range append(uidsOf(t, s, "a"), uidsOf(t, s, "shared")[1]) {
		snap, err := s.Load(t.Context(), uid)
		if err != nil {
			t.Fatal(err)
		}
		r := recordFor(snap)
		r.Forget = true
		mustCommit(t, s, r)
	}
	if got := query(t, s, `SELECT id FROM sources ORDER BY id`); !slices.Equal(got, []string{dirB.ID, httpSrc.ID}) {
		t.Errorf("sources left: %v", got)
	}
}
