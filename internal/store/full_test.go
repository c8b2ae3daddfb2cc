package store

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// fillStore submits until the disk is full, and returns how many pods it took.
func fillStore(t *testing.T, s *Store) (int, error) {
	t.Helper()
	big := func(p *corev1.Pod) { p.Annotations = map[string]string{"filler": strings.Repeat("f", 60_000)} }
	for i := range 1000 {
		if _, err := s.Submit(t.Context(), httpSrc, []pod.Submission{submission(fmt.Sprint("p", i), big)}); err != nil {
			return i, err
		}
	}
	t.Fatal("the disk does not fill")
	return 0, nil
}

func TestDiskFullAndRecovery(t *testing.T) {
	dir := mountTmpfs(t, "3m")
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(dir)
		o.BackupPath = filepath.Join(t.TempDir(), "backup.db")
		s, _ := mustOpen(t, o)
		defer s.Close()
		n, err := fillStore(t, s)
		wantClass(t, err, pod.Unavailable, o.Path, "full", "free some space")
		if n < 5 {
			t.Errorf("full after %d pods", n)
		}
		if h := s.Health(); h.Reason != "DiskFull" || !strings.Contains(h.Message, o.Path) || h.Since.IsZero() {
			t.Errorf("health %+v", h)
		}
		// Reading goes on, a refused write leaves nothing, and writes that find
		// nothing to do say nothing about the disk.
		if uids, err := s.UIDs(t.Context()); err != nil || len(uids) != n {
			t.Errorf("%d pods of %d, %v", len(uids), n, err)
		}
		if _, err := s.Submit(t.Context(), httpSrc, nil); err != nil {
			t.Error(err)
		}
		fillUp(t, filepath.Join(dir, "filler"))
		time.Sleep(time.Minute)
		if s.Health().Reason == "" {
			t.Error("healthy on a full disk")
		}
		// Space returns, and nobody but the store's own probe writes.
		if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
			t.Fatal(err)
		}
		remount(t, dir, 0, "size=16m")
		time.Sleep(2 * retryEvery)
		synctest.Wait()
		if h := s.Health(); h != (Health{}) {
			t.Errorf("health after space returned: %+v", h)
		}
		if _, err := s.Submit(t.Context(), httpSrc, []pod.Submission{submission("last")}); err != nil {
			t.Error(err)
		}
	})
}

func TestBackupFailsAndCatchesUp(t *testing.T) {
	dir := mountTmpfs(t, "64k")
	fillUp(t, filepath.Join(dir, "filler"))
	synctest.Test(t, func(t *testing.T) {
		o := testOptions(t.TempDir())
		o.BackupPath = filepath.Join(dir, "backup.db")
		s, _ := mustOpen(t, o)
		defer s.Close()
		mustSync(t, s, dirA, set(submission("web")))
		synctest.Wait()
		if h := s.Health(); h.Reason != "BackupFailed" || !strings.Contains(h.Message, o.BackupPath) {
			t.Errorf("health %+v", h)
		}
		if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
			t.Fatal(err)
		}
		remount(t, dir, 0, "size=8m")
		time.Sleep(2 * retryEvery)
		synctest.Wait()
		if h := s.Health(); h != (Health{}) {
			t.Errorf("health %+v", h)
		}
		compareBackup(t, s)
	})
}

// Writers and readers at once: nobody sees a busy database, and every reader
// sees one moment.
func TestReadersSeeOneMoment(t *testing.T) {
	s, _ := newStore(t)
	mustSync(t, s, dirA, set(submission("a"), submission("b")))
	var all sync.WaitGroup
	for w := range 2 {
		all.Go(func() {
			for i := range 60 {
				image := withImage("main", fmt.Sprint("image-", w, "-", i))
				mustSync(t, s, dirA, set(submission("a", image), submission("b", image)))
			}
		})
	}
	for range 6 {
		all.Go(func() {
			for range 60 {
				err := s.Read(t.Context(), func(tx *ReadTx) error {
					var a, b string
					if err := tx.Get(&a, `SELECT image FROM desired_containers WHERE pod = 'a'`); err != nil {
						return err
					}
					if err := tx.Get(&b, `SELECT image FROM desired_containers WHERE pod = 'b'`); err != nil {
						return err
					}
					if a != b {
						t.Errorf("a has %s and b has %s", a, b)
					}
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
