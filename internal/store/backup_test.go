package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"podstead.io/podstead/internal/pod"
)

// compareBackup brings the backup up to date and fails if it is not exactly
// what the database has.
func compareBackup(t testing.TB, s *Store) {
	t.Helper()
	if err := s.backup.flush(context.Background()); err != nil {
		t.Fatal(err)
	}
	s.backup.writing.Lock()
	defer s.backup.writing.Unlock()
	rows, err := readBackup(context.Background(), s.backup.db)
	if err != nil {
		t.Fatal(err)
	}
	got := map[backupKey]string{}
	for _, r := range rows {
		if !r.sound() {
			t.Errorf("%s %s is damaged", r.Kind, r.Key)
		}
		got[r.backupKey] = r.Data
	}
	var want map[backupKey]string
	err = s.Read(context.Background(), func(tx *ReadTx) error {
		var err error
		want, err = tx.backupObjects()
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if !maps.Equal(got, want) {
		t.Errorf("the backup is\n%v\nand should be\n%v", got, want)
	}
}

// richStore has one of everything that has to come back.
func richStore(t *testing.T, o Options) *Store {
	t.Helper()
	s, _ := mustOpen(t, o)
	if err := s.Configure(t.Context(), []pod.Source{dirA, dirB, httpSrc}); err != nil {
		t.Fatal(err)
	}
	first := submission("web", withImage("side", "nginx"), func(p *corev1.Pod) { p.Annotations = map[string]string{"odd": "<a & b>"} })
	mustSync(t, s, dirA, set(first, submission("again"), submission("edited")))
	mustSync(t, s, dirA, set(first, submission("edited", withHostNetwork)))
	mustSync(t, s, dirA, set(first, submission("again"), submission("edited", withHostNetwork, withImage("main", "nginx"))))
	mustSubmit(t, s, submission("job", withPolicy(corev1.RestartPolicyNever)), submission("leaving"))
	if err := s.Withdraw(t.Context(), httpSrc, key("leaving"), seconds(7)); err != nil {
		t.Fatal(err)
	}
	r := recordFor(load(t, s, "web"))
	r.State, r.Attempts = pod.StateRunning, map[string]int{"side": 4}
	r.Status = &corev1.PodStatus{Phase: corev1.PodRunning}
	mustCommit(t, s, r)
	r = recordFor(load(t, s, "job"))
	r.State, r.Status = pod.StateSucceeded, &corev1.PodStatus{Phase: corev1.PodSucceeded}
	mustCommit(t, s, r)
	return s
}

func TestBackupRestoresDesiredState(t *testing.T) {
	o := testOptions(t.TempDir())
	s := richStore(t, o)
	compareBackup(t, s)
	type memory struct {
		pods    map[string]string
		sources string
	}
	remember := func(s *Store) memory {
		m := memory{pods: map[string]string{}}
		uids, err := s.UIDs(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, uid := range uids {
			snap, err := s.Load(t.Context(), uid)
			if err != nil {
				t.Fatal(err)
			}
			d := snap.Desired
			d.Pod.ResourceVersion = "" // goes up
			if d.State == pod.StateRunning {
				d.Status = corev1.PodStatus{} // is computed again
			}
			m.pods[string(uid)] = marshal(d)
		}
		m.sources = strings.Join(query(t, s, `SELECT format('%s %s %s %d %d', id, kind, location, configured, synced) FROM sources ORDER BY id`), "\n")
		return m
	}
	before, version := remember(s), query(t, s, `SELECT value FROM meta WHERE key = 'resource_version'`)[0]
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := removeDatabase(o.Path); err != nil {
		t.Fatal(err)
	}
	o.NodeID = "something else"
	s, report := mustOpen(t, o)
	defer s.Close()
	if !report.Restored || report.Pods != 6 || len(report.Lost) != 0 || s.NodeID() != "node-1" {
		t.Errorf("report %+v, node %s", report, s.NodeID())
	}
	after := remember(s)
	if after.sources != before.sources {
		t.Errorf("sources\n%s\nbecame\n%s", before.sources, after.sources)
	}
	if len(after.pods) != len(before.pods) {
		t.Errorf("%d pods became %d", len(before.pods), len(after.pods))
	}
	for uid, was := range before.pods {
		if is := after.pods[uid]; is != was {
			t.Errorf("%s\n%s\nbecame\n%s", uid, was, is)
		}
	}
	if now := query(t, s, `SELECT value FROM meta WHERE key = 'resource_version'`)[0]; len(now) <= len(version) {
		t.Errorf("resource version went from %s to %s", version, now)
	}
	compareBackup(t, s)

	// A sync that finds everything as before changes nothing, and the next
	// incarnation goes on counting.
	full := set(submission("web", withImage("side", "nginx"), func(p *corev1.Pod) { p.Annotations = map[string]string{"odd": "<a & b>"} }),
		submission("again"), submission("edited", withHostNetwork, withImage("main", "nginx")))
	if r := mustSync(t, s, dirA, full); len(r.Unchanged) != 3 || len(r.Removed) != 0 {
		t.Errorf("the first sync: %+v", r)
	}
	mustSync(t, s, dirA, set())
	mustSync(t, s, dirA, set(submission("again")))
	if got := load(t, s, "again").Desired.Incarnation; got != 3 {
		t.Errorf("incarnation %d", got)
	}
}

func TestDamagedObjectsOfABackupAreNamed(t *testing.T) {
	o := testOptions(t.TempDir())
	s := richStore(t, o)
	lost := uidsOf(t, s, "job")[0]
	s.Close()
	db, err := openSQLite("sqlite", o.BackupPath, "", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`UPDATE objects SET data = replace(data, '"revision":1', '"revision":7') WHERE key = ?`, lost); err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`UPDATE objects SET data = '{}' WHERE kind = 'source' AND key = 'directory:/a'`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	if err := removeDatabase(o.Path); err != nil {
		t.Fatal(err)
	}
	s, report := mustOpen(t, o)
	defer s.Close()
	if report.Pods != 5 || strings.Join(report.Lost, ",") != fmt.Sprintf("pod %s,source directory:/a", lost) {
		t.Errorf("report %+v", report)
	}
	// The source's pods are there; it counts as not synced until it is read.
	if d := load(t, s, "web").Desired; d.Source.Kind != pod.SourceDirectory {
		t.Errorf("source %+v", d.Source)
	}
	if got := query(t, s, `SELECT synced FROM sources WHERE id = 'directory:/a'`); got[0] != "0" {
		t.Errorf("synced %v", got)
	}
}

func TestUnusableBackup(t *testing.T) {
	for name, spoil := range map[string]func(path string){
		"garbage": func(path string) { overwrite(t, path, 0, strings.Repeat("no backup", 1000)) },
		"a later format": func(path string) {
			db, err := openSQLite("sqlite", path, "", 1)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec(`PRAGMA user_version = 2`); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t.TempDir())
			s, _ := mustOpen(t, o)
			mustSync(t, s, dirA, set(submission("web")))
			s.Close()
			spoil(o.BackupPath)
			// It matters only when the database is lost too.
			s, _ = mustOpen(t, o)
			compareBackup(t, s)
			s.Close()
			spoil(o.BackupPath)
			if err := removeDatabase(o.Path); err != nil {
				t.Fatal(err)
			}
			wantClass(t, openError(t, o), pod.Invalid, o.BackupPath, "remove the backup")
			if _, err := os.Stat(o.Path); err == nil {
				t.Error("an empty database was made")
			}
		})
	}
}

// A database that came back from somewhere else is the truth.
func TestBackupFollowsTheDatabaseAtOpen(t *testing.T) {
	o := testOptions(t.TempDir())
	s, _ := mustOpen(t, o)
	mustSync(t, s, dirA, set(submission("web")))
	s.Close()
	old, err := os.ReadFile(o.BackupPath)
	if err != nil {
		t.Fatal(err)
	}
	s, _ = mustOpen(t, o)
	mustSync(t, s, dirA, set(submission("web", withImage("main", "nginx")), submission("db")))
	s.Close()
	if err := os.WriteFile(o.BackupPath, old, 0o600); err != nil {
		t.Fatal(err)
	}
	s, _ = mustOpen(t, o)
	defer s.Close()
	compareBackup(t, s)
}

func TestBackupCostsWhatChanged(t *testing.T) {
	s, _ := newStore(t)
	mustSync(t, s, dirA, fifty())
	compareBackup(t, s)
	changes := func() int {
		s.backup.writing.Lock()
		defer s.backup.writing.Unlock()
		var n int
		if err := s.backup.db.Get(&n, `SELECT total_changes()`); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := changes()
	edited := fifty()
	edited.Pods[3] = submission("p3", withImage("side", "other"))
	mustSync(t, s, dirA, edited)
	compareBackup(t, s)
	if n := changes() - before; n == 0 || n > 4 {
		t.Errorf("one edit wrote %d rows to the backup", n)
	}
}

// Database and backup are both lost; what runs is adopted by name and hash.
func TestAdoptionAfterLosingEverything(t *testing.T) {
	c := newClock()
	o := testOptions(t.TempDir())
	o.Now = c.Now
	s, _ := mustOpen(t, o)
	first := submission("web", withImage("side", "nginx"))
	mustSync(t, s, dirA, set(first, submission("changed")))
	mustSubmit(t, s, submission("posted"))
	mustSync(t, s, dirA, set(submission("web", withImage("side", "nginx:2"), withHostNetwork), submission("changed")))
	mustSync(t, s, dirA, set(first, submission("changed")))
	web, changed, posted := load(t, s, "web").Desired, load(t, s, "changed").Desired, load(t, s, "posted").Desired
	if got := revisions(web); got != "g3 r3 main:3 side:3" {
		t.Fatal(got)
	}
	var facts pod.Facts
	for _, d := range []pod.Desired{web, changed, posted} {
		facts.Sandboxes = append(facts.Sandboxes, sandboxOf(d, c.Now()))
		for _, dc := range d.Containers {
			facts.Containers = append(facts.Containers, containerOf(d, dc.Name, 5, c.Now()))
		}
	}
	s.Close()

	o = testOptions(t.TempDir())
	o.Now = c.Now
	s, _ = mustOpen(t, o)
	defer s.Close()
	facts.Complete, facts.AsOf = true, c.advance(time.Second)
	mustObserve(t, s, facts)
	mustSync(t, s, dirA, set(first, submission("changed", withImage("main", "nginx"))))
	mustSubmit(t, s, submission("posted"))

	for _, was := range []pod.Desired{web, posted} {
		is := load(t, s, was.Name).Desired
		if is.UID != was.UID || is.Revision != was.Revision || is.Containers[0].Attempt != 5 {
			t.Errorf("%s: %s as %s became %s as %s", was.Name, was.UID, revisions(was), is.UID, revisions(is))
		}
		for i, dc := range is.Containers {
			if dc.Revision != was.Containers[i].Revision {
				t.Errorf("%s/%s is at revision %d, was at %d", was.Name, dc.Name, dc.Revision, was.Containers[i].Revision)
			}
		}
	}
	// Edited while the database was lost: nothing of it may pass for current.
	is := load(t, s, "changed").Desired
	if is.UID != changed.UID || is.Revision <= changed.Revision || is.Containers[0].Revision <= changed.Containers[0].Revision {
		t.Errorf("changed: %s as %s became %s as %s", changed.UID, revisions(changed), is.UID, revisions(is))
	}
}

// Someone empties the directory while the agent runs. What was acknowledged
// before and since is restored by the next one.
func TestFilesRemovedWhileOpen(t *testing.T) {
	for name, files := range map[string][]string{"database": {"podstead.db"}, "backup": {"backup.db"}, "both": {"podstead.db", "backup.db"}} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t.TempDir())
			s, _ := mustOpen(t, o)
			mustSubmit(t, s, submission("before"))
			if err := s.backup.flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := s.Intact(t.Context()); err != nil {
				t.Fatal(err)
			}
			for _, f := range files {
				for _, suffix := range []string{"", "-wal", "-shm"} {
					if err := os.Remove(filepath.Join(filepath.Dir(o.Path), f+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
						t.Fatal(err)
					}
				}
			}
			mustSubmit(t, s, submission("since"))
			if err := s.Intact(t.Context()); name != "backup" {
				wantClass(t, err, pod.NotFound, o.Path, "removed", "restart")
			} else if err != nil {
				t.Error(err)
			}
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s, report := mustOpen(t, o)
			defer s.Close()
			if report.Restored != (name != "backup") {
				t.Errorf("opened with %+v", report)
			}
			for _, pod := range []string{"before", "since"} {
				if load(t, s, pod).Desired.Deletion != nil {
					t.Errorf("%s is lost", pod)
				}
			}
			if err := s.backup.flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if info, err := os.Stat(o.BackupPath); err != nil || info.Size() == 0 {
				t.Errorf("no backup: %v", err)
			}
		})
	}
}

// While the backup can't be written, the process is all that remembers what was
// submitted since, and nobody may end it for a new one.
func TestDatabaseRemovedWhileTheBackupCannotBeWritten(t *testing.T) {
	o := testOptions(t.TempDir())
	disk := mountTmpfs(t, "1m")
	o.BackupPath = filepath.Join(disk, "backup.db")
	s, _ := mustOpen(t, o)
	defer s.Close()
	mustSubmit(t, s, submission("before"))
	if err := s.backup.flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	fillUp(t, filepath.Join(disk, "filler"))
	if err := os.Remove(o.Path); err != nil {
		t.Fatal(err)
	}
	mustSubmit(t, s, submission("since", func(p *corev1.Pod) { p.Annotations = map[string]string{"big": strings.Repeat("b", 60_000)} }))
	wantClass(t, s.Intact(t.Context()), pod.Unavailable, o.Path, o.BackupPath, "do not stop")
	if err := os.Remove(filepath.Join(disk, "filler")); err != nil {
		t.Fatal(err)
	}
	wantClass(t, s.Intact(t.Context()), pod.NotFound, o.Path, "restart")
}

// Database and backup are both lost; what was submitted runs on until someone
// says what is to become of it.
func TestSubmittedPodsOutliveTheLossOfEverything(t *testing.T) {
	setup := func(t *testing.T) (*Store, pod.Desired, pod.Desired) {
		t.Helper()
		first, c := newStore(t)
		mustSync(t, first, dirA, set(submission("static")))
		mustSubmit(t, first, submission("posted"))
		posted, static := load(t, first, "posted").Desired, load(t, first, "static").Desired
		s, _ := newStore(t)
		if err := s.Configure(t.Context(), []pod.Source{dirA, httpSrc}); err != nil {
			t.Fatal(err)
		}
		facts := pod.Facts{Complete: true}
		for _, d := range []pod.Desired{posted, static} {
			facts.Sandboxes = append(facts.Sandboxes, sandboxOf(d, c.Now()))
			facts.Containers = append(facts.Containers, containerOf(d, "main", 3, c.Now()))
		}
		mustObserve(t, s, facts)
		mustSync(t, s, dirA, set())
		return s, posted, static
	}
	orphans := func(t *testing.T, s *Store) (uids []types.UID) {
		t.Helper()
		list, err := s.Orphans(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range list {
			uids = append(uids, o.Sandboxes[0].UID)
		}
		return uids
	}
	t.Run("it runs on", func(t *testing.T) {
		s, posted, static := setup(t)
		if got := orphans(t, s); !slices.Equal(got, []types.UID{static.UID}) {
			t.Errorf("orphans %v; want what the directory had", got)
		}
		want := []Unwanted{{Key: key("posted"), UID: posted.UID, Kept: true}, {Key: key("static"), UID: static.UID}}
		if list, err := s.Unwanted(t.Context()); err != nil || !slices.Equal(list, want) {
			t.Errorf("unwanted %+v, %v", list, err)
		}
		if got := query(t, s, `SELECT action FROM drift WHERE pod = 'posted'`); !slices.Equal(got, []string{"none: submit it again, or delete it"}) {
			t.Errorf("drift %q", got)
		}
	})
	t.Run("it is submitted again", func(t *testing.T) {
		s, posted, _ := setup(t)
		mustSubmit(t, s, submission("posted"))
		if d := load(t, s, "posted").Desired; d.UID != posted.UID || revisions(d) != revisions(posted) {
			t.Errorf("adopted as %s %s", d.UID, revisions(d))
		}
	})
	t.Run("another is submitted under its name", func(t *testing.T) {
		s, posted, _ := setup(t)
		mustSubmit(t, s, submission("posted", withImage("main", "nginx")))
		if d := load(t, s, "posted").Desired; d.UID != posted.UID || revisions(d) != "g1 r2 main:2" {
			t.Errorf("adopted as %s %s", d.UID, revisions(d))
		}
	})
	t.Run("what is left of one that is gone does not", func(t *testing.T) {
		s, posted, static := setup(t)
		if err := s.Withdraw(t.Context(), httpSrc, key("posted"), nil); err != nil {
			t.Fatal(err)
		}
		r := recordFor(load(t, s, "posted"))
		r.Forget, r.Transitions = true, []pod.Transition{{Machine: pod.MachinePod, To: string(pod.StateGone)}}
		mustCommit(t, s, r)
		mustObserve(t, s, pod.Facts{Sandboxes: []pod.Sandbox{sandboxOf(posted, time.Now())}, AsOf: s.order.now().Add(time.Minute)})
		if got := orphans(t, s); !slices.Contains(got, posted.UID) || !slices.Contains(got, static.UID) {
			t.Errorf("orphans %v", got)
		}
		mustSubmit(t, s, submission("posted"))
		if uids := uidsOf(t, s, "posted"); slices.Contains(uids, posted.UID) {
			t.Errorf("a pod that is gone came back as %v", uids)
		}
	})
	t.Run("it is deleted", func(t *testing.T) {
		s, posted, _ := setup(t)
		if err := s.Withdraw(t.Context(), httpSrc, key("posted"), nil); err != nil {
			t.Fatal(err)
		}
		snap := load(t, s, "posted")
		if snap.Desired.UID != posted.UID || snap.Desired.Deletion == nil || len(snap.Observed.Containers) != 1 {
			t.Errorf("%+v", snap)
		}
		wantClass(t, s.Withdraw(t.Context(), httpSrc, key("static"), nil), pod.NotFound)
	})
}
