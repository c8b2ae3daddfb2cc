package store

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
)

func TestSubmitCreatesAndEdits(t *testing.T) {
	s, _ := newStore(t)
	r := mustSubmit(t, s, submission("web"), submission("db"))
	if len(r.Created) != 2 {
		t.Fatalf("%+v", r)
	}
	r = mustSubmit(t, s, submission("web", withImage("main", "nginx")), submission("db"))
	if !slices.Equal(r.Updated, []pod.Key{key("web")}) || !slices.Equal(r.Unchanged, []pod.Key{key("db")}) {
		t.Fatalf("%+v", r)
	}
	if got := revisions(load(t, s, "web").Desired); got != "g2 r1 main:2" {
		t.Error(got)
	}
	unwritten(t, s, "submitting the same again", func() { mustSubmit(t, s, submission("db")) })
}

func TestSubmitIsAllOrNothing(t *testing.T) {
	s, _ := newStore(t)
	mustSync(t, s, dirA, set(submission("web")))
	r, err := s.Submit(t.Context(), httpSrc, []pod.Submission{submission("new"), submission("web")})
	wantClass(t, err, pod.Conflict, "default/web", "directory:/a", "web.yaml")
	if len(r.Created) != 0 || len(r.Conflicts) != 1 {
		t.Errorf("%+v", r)
	}
	if uids := uidsOf(t, s, "new"); len(uids) != 0 {
		t.Error("a refused submit left a pod")
	}
	// Others see that it was refused; it does not wait for the name.
	list, err := s.Rejections(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Source != "http" || list[0].Waits {
		t.Fatalf("rejections %+v", list)
	}
	mustSync(t, s, dirA, set())
	if uids := uidsOf(t, s, "web"); len(uids) != 1 {
		t.Error("a refused submit took over")
	}
	if got := query(t, s, `SELECT pod FROM rejections`); len(got) != 0 {
		t.Errorf("the rejection names an owner that is gone: %v", got)
	}
	if r := mustSubmit(t, s, submission("web")); len(r.Created) != 1 {
		t.Errorf("the name is free: %+v", r)
	}
	_, err = s.Submit(t.Context(), httpSrc, []pod.Submission{submission("x"), in("elsewhere", submission("x"))})
	wantClass(t, err, pod.Invalid, "default/x", "twice")
}

func TestRejectedSubmissionsAreBoundedAndCleared(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Limits.Rejections = 3
	s, _ := mustOpen(t, o)
	defer s.Close()
	reject := func(name string) {
		t.Helper()
		if err := s.Reject(t.Context(), httpSrc, []pod.Rejection{{Place: "#1", Key: key(name), Reason: pod.RejectedInvalid}}); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		reject(fmt.Sprintf("p%d", i))
	}
	reject("p3")
	if got := query(t, s, `SELECT pod FROM rejections ORDER BY id`); !slices.Equal(got, []string{"p2", "p4", "p3"}) {
		t.Errorf("rejections %v", got)
	}
	mustSubmit(t, s, submission("p4"))
	if got := query(t, s, `SELECT pod FROM rejections ORDER BY id`); !slices.Equal(got, []string{"p2", "p3"}) {
		t.Errorf("rejections %v", got)
	}
}

func TestWithdraw(t *testing.T) {
	s, c := newStore(t)
	ctx := t.Context()
	wantClass(t, s.Withdraw(ctx, httpSrc, key("web"), nil), pod.NotFound, "default/web")
	mustSubmit(t, s, submission("web"))
	if err := s.Withdraw(ctx, httpSrc, key("web"), nil); err != nil {
		t.Fatal(err)
	}
	d := load(t, s, "web").Desired.Deletion
	if d == nil || d.Grace != 30*time.Second || d.Cause != pod.CauseUser {
		t.Fatalf("deletion %+v", d)
	}
	// Again, with more time, with less, and without any.
	for _, test := range []struct {
		grace *time.Duration
		want  time.Duration
	}{{nil, 30 * time.Second}, {seconds(60), 30 * time.Second}, {seconds(5), 15 * time.Second}, {seconds(0), 10 * time.Second}} {
		if test.grace != nil && *test.grace == 5*time.Second {
			c.advance(10 * time.Second)
		}
		if err := s.Withdraw(ctx, httpSrc, key("web"), test.grace); err != nil {
			t.Fatal(err)
		}
		if got := load(t, s, "web").Desired.Deletion; !got.RequestedAt.Add(got.Grace).Equal(d.RequestedAt.Add(test.want)) {
			t.Errorf("grace %v asked for: %+v", test.grace, got)
		}
	}
	// A new incarnation can be submitted meanwhile, and deleted by itself.
	mustSubmit(t, s, submission("web"))
	snap := load(t, s, "web")
	if snap.Predecessor == "" || snap.Desired.Incarnation != 2 || snap.Desired.Deletion != nil {
		t.Errorf("new incarnation %+v", snap)
	}
	if err := s.Withdraw(ctx, httpSrc, key("web"), seconds(1)); err != nil {
		t.Fatal(err)
	}
	if uids := uidsOf(t, s, "web"); len(uids) != 2 {
		t.Errorf("%d rows", len(uids))
	}
}

func seconds(n int) *time.Duration {
	d := time.Duration(n) * time.Second
	return &d
}

func TestWithdrawLeavesOtherSourcesAlone(t *testing.T) {
	s, _ := newStore(t)
	mustSync(t, s, dirA, set(submission("web")))
	wantClass(t, s.Withdraw(t.Context(), httpSrc, key("web"), nil), pod.Conflict, "default/web", "directory:/a (web.yaml)")
	if load(t, s, "web").Desired.Deletion != nil {
		t.Error("it was deleted")
	}
	// A file waits for a name that HTTP owns.
	mustSubmit(t, s, submission("app"))
	mustSync(t, s, dirA, set(submission("web"), submission("app")))
	if err := s.Withdraw(t.Context(), httpSrc, key("app"), nil); err != nil {
		t.Fatal(err)
	}
	if d := load(t, s, "app").Desired; d.Source != dirA || d.Deletion != nil {
		t.Errorf("app belongs to %s", d.Source.ID)
	}
	wantClass(t, s.Withdraw(t.Context(), httpSrc, key("app"), nil), pod.Conflict, "directory:/a")
}

func TestHTTPUIDsAreRandom(t *testing.T) {
	first, _ := newStore(t)
	second, _ := newStore(t)
	mustSubmit(t, first, submission("web"))
	mustSubmit(t, second, submission("web"))
	if a, b := uidsOf(t, first, "web")[0], uidsOf(t, second, "web")[0]; a == b || strings.Count(string(a), "-") != 4 {
		t.Errorf("%s and %s", a, b)
	}
}
