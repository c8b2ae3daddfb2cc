package store

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

func count(t *testing.T, s *Store, q string, args ...any) int {
	t.Helper()
	n, err := strconv.Atoi(query(t, s, q, args...)[0])
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// addHistory records transitions and events of a pod, one step each.
func addHistory(t *testing.T, s *Store, name string, n int) {
	t.Helper()
	snap := load(t, s, name)
	for i := range n {
		r := recordFor(snap)
		r.Transitions = []pod.Transition{{Machine: pod.MachineContainer, Container: "main", To: "Running", Detail: strings.Repeat("x", 200)}}
		r.Events = []pod.Event{{Type: corev1.EventTypeNormal, Reason: "Started", Message: fmt.Sprint(s.now(), i)}}
		mustCommit(t, s, r)
	}
}

// TestHistoryIsBoundedByCount guards against k3s#3660, k3s#4044, kine#607.
func TestHistoryIsBoundedByCount(t *testing.T) {
	o := testOptions(t.TempDir())
	o.Limits = Limits{Transitions: 300, Events: 200}
	s, _ := mustOpen(t, o)
	defer s.Close()
	mustSync(t, s, dirA, set(submission("quiet"), submission("busy")))
	addHistory(t, s, "quiet", 3)
	addHistory(t, s, "busy", 700)
	if n := count(t, s, `SELECT count(*) FROM transitions`); n > 300+pruneRows || n < 300 {
		t.Errorf("%d transitions", n)
	}
	if n := count(t, s, `SELECT count(*) FROM events`); n > 200+pruneRows || n < 200 {
		t.Errorf("%d events", n)
	}
	// Why the quiet pod is as it is stays known.
	if n := count(t, s, `SELECT count(*) FROM why WHERE pod = 'quiet'`); n != 1 {
		t.Errorf("why knows %d things of the quiet pod", n)
	}
	if free := count(t, s, `SELECT freelist_count FROM pragma_freelist_count`); free > freePages {
		t.Errorf("%d pages are unused", free)
	}
}

// TestHistoryIsBoundedByAge guards against k3s#3660, k3s#4044, kine#607.
func TestHistoryIsBoundedByAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(t.TempDir())
		o.Limits.Recent = 1
		s, _ := mustOpen(t, o)
		defer s.Close()
		mustSync(t, s, dirA, set(submission("old"), submission("new")))
		addHistory(t, s, "old", 10)
		time.Sleep(8 * 24 * time.Hour)
		if n := count(t, s, `SELECT count(*) FROM events`); n != 10 {
			t.Fatalf("%d events; something was written by a timer", n)
		}
		addHistory(t, s, "new", 1)
		if n := count(t, s, `SELECT count(*) FROM events`); n != 1 {
			t.Errorf("%d events after a week", n)
		}
		time.Sleep(90 * 24 * time.Hour)
		addHistory(t, s, "new", 1)
		if n := count(t, s, `SELECT count(*) FROM transitions WHERE pod = 'old'`); n != 1 {
			t.Errorf("%d transitions of old, want the latest", n)
		}
		// Once the pod is gone nothing of it is kept for ever.
		r := recordFor(load(t, s, "old"))
		r.Forget = true
		mustCommit(t, s, r)
		time.Sleep(2 * time.Hour)
		addHistory(t, s, "new", 1)
		if n := count(t, s, `SELECT count(*) FROM transitions WHERE pod = 'old'`); n != 0 {
			t.Errorf("%d transitions of a pod long gone", n)
		}
	})
}

// What is left of a pod that is long gone is not taken for one that was submitted
// to a database which is lost.
func TestWhatIsLeftOfAPodKeepsItsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(t.TempDir())
		o.Limits.Recent = 1
		s, _ := mustOpen(t, o)
		defer s.Close()
		if err := s.Configure(t.Context(), []pod.Source{httpSrc}); err != nil {
			t.Fatal(err)
		}
		mustSync(t, s, dirA, set(submission("new")))
		mustSubmit(t, s, submission("old"))
		d := load(t, s, "old").Desired
		if err := s.Withdraw(t.Context(), httpSrc, key("old"), nil); err != nil {
			t.Fatal(err)
		}
		r := recordFor(load(t, s, "old"))
		r.Forget, r.Transitions = true, []pod.Transition{{Machine: pod.MachinePod, To: string(pod.StateGone)}}
		mustCommit(t, s, r)
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{sandboxOf(d, time.Now())}, AsOf: s.order.now().Add(time.Minute)})
		time.Sleep(200 * 24 * time.Hour)
		addHistory(t, s, "new", 1)
		if list, err := s.Unwanted(t.Context()); err != nil || len(list) != 1 || list[0].Kept {
			t.Errorf("unwanted %+v, %v", list, err)
		}
		mustObserve(t, s, pod.Facts{Complete: true, AsOf: s.order.now().Add(time.Minute)})
		time.Sleep(2 * time.Hour)
		addHistory(t, s, "new", 1)
		if n := count(t, s, `SELECT count(*) FROM transitions WHERE pod = 'old'`); n != 0 {
			t.Errorf("%d transitions of a pod that nothing is left of", n)
		}
	})
}

func TestIncarnationsAreBounded(t *testing.T) {
	o := testOptions(t.TempDir())
	c := newClock()
	o.Now, o.Limits = c.Now, Limits{Incarnations: 3}
	s, _ := mustOpen(t, o)
	defer s.Close()
	for i := range 6 {
		mustSync(t, s, dirA, set(submission("kept"), submission(fmt.Sprint("p", i))))
		for name := range 6 {
			for _, uid := range uidsOf(t, s, fmt.Sprint("p", name)) {
				snap, err := s.Load(t.Context(), uid)
				if err != nil {
					t.Fatal(err)
				}
				if snap.Desired.Deletion != nil {
					r := recordFor(snap)
					r.Forget = true
					mustCommit(t, s, r)
				}
			}
		}
		c.advance(2 * time.Hour)
		addHistory(t, s, "kept", 1)
	}
	got := query(t, s, `SELECT pod FROM incarnations ORDER BY used_at`)
	if len(got) != 4 || got[0] != "kept" || got[3] != "p5" {
		t.Errorf("incarnations %v, want the latest three and what is in use", got)
	}
	if err := s.backup.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	var kept []string
	if err := s.backup.db.Select(&kept, `SELECT json_extract(data, '$.pod') FROM objects WHERE kind = 'incarnation' ORDER BY data ->> '$.usedAt'`); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(kept, got) {
		t.Errorf("the backup has incarnations %v, the database %v", kept, got)
	}
}

// The wall clock jumps ahead for a while and is put right again.
func TestHistoryOutlivesAJumpOfTheClock(t *testing.T) {
	o := testOptions(t.TempDir())
	c := newClock()
	o.Now, o.Limits = c.Now, Limits{Events: 20, Recent: 15}
	s, _ := mustOpen(t, o)
	s.order.now = time.Now
	defer s.Close()
	mustSync(t, s, dirA, set(submission("web")))
	addHistory(t, s, "web", 10)
	prune := func() {
		t.Helper()
		s.pruned = pruner{}
		addHistory(t, s, "web", 1)
	}
	c.advance(10 * 365 * 24 * time.Hour)
	prune()
	if n := count(t, s, `SELECT count(*) FROM transitions`); n != 11 {
		t.Errorf("%d transitions are left of 11", n)
	}
	if n := count(t, s, `SELECT count(*) FROM events`); n != 11 {
		t.Errorf("%d events are left of 11", n)
	}
	addHistory(t, s, "web", 19)
	c.advance(time.Second - 10*365*24*time.Hour)
	prune()
	if n := count(t, s, `SELECT count(*) FROM events WHERE last_seen_at <= ?`, stampOf(c.Now())); n != 11 {
		t.Errorf("%d events of the right time are left of 11", n)
	}
	if n := count(t, s, `SELECT count(*) FROM events`); n != 20 {
		t.Errorf("%d events are left of 20", n)
	}
}

// TestWriteAheadLogIsCapped guards against k3s#3660, k3s#4044, kine#607.
func TestWriteAheadLogIsCapped(t *testing.T) {
	s, _ := newStore(t)
	mustSync(t, s, dirA, set(submission("web")))
	stop := make(chan struct{})
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if _, err := s.UIDs(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	biggest := int64(0)
	for range 12 {
		err := s.Write(t.Context(), "fill", func(tx *WriteTx) error {
			_, err := tx.Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 800)
				INSERT INTO transitions (at, namespace, pod, container, pod_uid, machine, "from", event, "to", cause, detail, generation, attempt)
				SELECT ?, 'default', 'web', 'main', 'u', 'container', '', '', '', '', format('%02000d', i), 1, i FROM n`, tx.now())
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(s.path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		biggest = max(biggest, info.Size())
	}
	close(stop)
	readers.Wait()
	if biggest > 12<<20 {
		t.Errorf("the write-ahead log grew to %d bytes", biggest)
	}
}

func TestClip(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("é", maxText), "bad \xff byte", strings.Repeat("x", maxText-1) + "€"} {
		got := clip(text)
		if !utf8.ValidString(got) || len(got) > maxText+len("…") {
			t.Errorf("%d bytes became %d, valid %t", len(text), len(got), utf8.ValidString(got))
		}
	}
	if clip("short") != "short" {
		t.Error("a short text was changed")
	}
}
