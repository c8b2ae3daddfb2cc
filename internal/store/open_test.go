package store

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/pressly/goose/v3"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/migrations"
)

func openError(t *testing.T, o Options) error {
	t.Helper()
	s, _, err := Open(t.Context(), o)
	if err == nil {
		s.Close()
		t.Fatal("it opened")
	}
	return err
}

func TestOpenTwice(t *testing.T) {
	o := testOptions(t.TempDir())
	s, _ := mustOpen(t, o)
	defer s.Close()
	wantClass(t, openError(t, o), pod.Conflict, o.Path, "process", "--root-dir")
}

func TestOpenAgainKeepsEverything(t *testing.T) {
	o := testOptions(t.TempDir())
	s, report := mustOpen(t, o)
	if !report.Created || s.NodeID() != "node-1" {
		t.Errorf("report %+v, node %s", report, s.NodeID())
	}
	mustSync(t, s, dirA, set(submission("web")))
	before := load(t, s, "web").Desired
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(o.Path + "-wal"); err != nil || info.Size() > 0 {
		t.Errorf("the write-ahead log is not empty: %v, %v", info, err)
	}
	if info, err := os.Stat(o.Path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	o.NodeID = "another"
	s, report = mustOpen(t, o)
	defer s.Close()
	if report.Created || report.Restored || len(report.Migrated) != 0 {
		t.Errorf("report %+v", report)
	}
	if after := load(t, s, "web").Desired; after.UID != before.UID || !after.CreatedAt.Equal(before.CreatedAt) || s.NodeID() != "node-1" {
		t.Errorf("%+v became %+v on %s", before, after, s.NodeID())
	}
}

func TestOpenRefusesWhatIsNotOurs(t *testing.T) {
	o := testOptions(t.TempDir())
	db, err := openSQLite("sqlite", o.Path, "_journal_mode=DELETE", 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec(`CREATE TABLE precious (x)`); err != nil {
		t.Fatal(err)
	}
	db.Close()
	before, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	wantClass(t, openError(t, o), pod.Invalid, o.Path, "another program")
	if after, err := os.ReadFile(o.Path); err != nil || string(after) != string(before) {
		t.Error("the foreign database was changed")
	}
}

func TestOpenRefusesANewerSchema(t *testing.T) {
	o := testOptions(t.TempDir())
	s, _ := mustOpen(t, o)
	if err := s.Write(t.Context(), "migrate", func(tx *WriteTx) error {
		_, err := tx.Exec(`INSERT INTO goose_db_version (version_id, is_applied) VALUES (99, 1)`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	wantClass(t, openError(t, o), pod.Invalid, o.Path, "version 99", "newer")
}

func TestOpenNamesARefusedMigration(t *testing.T) {
	o := testOptions(t.TempDir())
	s, _ := mustOpen(t, o)
	// A file that says it was never migrated, but has the tables.
	if err := s.Write(t.Context(), "undo", func(tx *WriteTx) error {
		_, err := tx.Exec(`DELETE FROM goose_db_version WHERE version_id > 0`)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	wantClass(t, openError(t, o), pod.Invalid, o.Path, "from version 0 to", "is as it was")
}

func TestOpenWithoutADirectory(t *testing.T) {
	o := testOptions(filepath.Join(t.TempDir(), "none"))
	wantClass(t, openError(t, o), pod.Unavailable, o.Path, "does not exist")
}

// mountTmpfs mounts a file system of that size, which is unmounted at the end.
func mountTmpfs(t *testing.T, size string) string {
	t.Helper()
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mount a tmpfs, which takes root: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

func remount(t *testing.T, dir string, flags uintptr, options string) {
	t.Helper()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT|flags, options); err != nil {
		t.Fatal(err)
	}
}

func TestOpenOnAReadOnlyFileSystem(t *testing.T) {
	dir := mountTmpfs(t, "8m")
	o := testOptions(dir)
	s, _ := mustOpen(t, o)
	s.Close()
	remount(t, dir, syscall.MS_RDONLY, "")
	wantClass(t, openError(t, o), pod.Unavailable, o.Path, "read-only")
	remount(t, dir, 0, "")
}

func TestOpenOnAFullDisk(t *testing.T) {
	dir := mountTmpfs(t, "256k")
	o := testOptions(dir)
	fillUp(t, filepath.Join(dir, "filler"))
	wantClass(t, openError(t, o), pod.Unavailable, o.Path, "full")
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	remount(t, dir, 0, "size=8m")
	s, report := mustOpen(t, o)
	defer s.Close()
	if !report.Created {
		t.Errorf("report %+v", report)
	}
}

// A disk that filled up while the agent was away must not keep it from starting:
// what SQLite needs beside the database was left there.
func TestOpenOnADiskThatHasFilledUp(t *testing.T) {
	dir := mountTmpfs(t, "3m")
	o := testOptions(dir)
	s, _ := mustOpen(t, o)
	mustSubmit(t, s, submission("web"))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fillUp(t, filepath.Join(dir, "filler"))
	s, report := mustOpen(t, o)
	defer s.Close()
	if report.Created || report.Restored || report.Damage != "" {
		t.Errorf("report %+v", report)
	}
	load(t, s, "web")
	_, err := s.Submit(t.Context(), httpSrc, []pod.Submission{submission("more")})
	wantClass(t, err, pod.Unavailable, o.Path, "full")
	if err := os.Remove(filepath.Join(dir, "filler")); err != nil {
		t.Fatal(err)
	}
	mustSubmit(t, s, submission("more"))
}

func TestOpenMovesDamagedDatabaseAside(t *testing.T) {
	for name, damage := range map[string]func(t *testing.T, path string){
		"not a database": func(t *testing.T, path string) { overwrite(t, path, 0, "this is no database at all") },
		"truncated":      func(t *testing.T, path string) { truncate(t, path, 9000) },
		"page damaged":   func(t *testing.T, path string) { overwrite(t, path, 5*4096, strings.Repeat("\xA5", 4096)) },
		"header damaged": func(t *testing.T, path string) { overwrite(t, path, 100, strings.Repeat("\xA5", 300)) },
	} {
		t.Run(name, func(t *testing.T) {
			o := testOptions(t.TempDir())
			s, _ := mustOpen(t, o)
			mustSync(t, s, dirA, set(submission("web")))
			before := load(t, s, "web").Desired
			s.Close()
			damage(t, o.Path)
			s, report := mustOpen(t, o)
			defer s.Close()
			if !report.Restored || report.Pods != 1 || report.Damage == "" {
				t.Errorf("report %+v", report)
			}
			if _, err := os.Stat(report.Corrupt); err != nil || !strings.HasPrefix(report.Corrupt, o.Path+".corrupt-") {
				t.Errorf("the damaged file is not at %q: %v", report.Corrupt, err)
			}
			if after := load(t, s, "web").Desired; after.UID != before.UID {
				t.Errorf("UID %s became %s", before.UID, after.UID)
			}
			events := query(t, s, `SELECT message FROM events WHERE reason = 'DatabaseRestored'`)
			if len(events) != 1 || !strings.Contains(events[0], report.Corrupt) {
				t.Errorf("events %v", events)
			}
		})
	}
}

// readOnEvery reads the pods on so many connections at a time: one of them may
// have the pages in its cache still.
func readOnEvery(t *testing.T, s *Store, connections int) error {
	if connections == 0 {
		return nil
	}
	return s.Read(t.Context(), func(tx *ReadTx) error {
		var manifests []string
		if err := tx.Select(&manifests, `SELECT manifest FROM desired_pods`); err != nil {
			return err
		}
		return readOnEvery(t, s, connections-1)
	})
}

func TestDamageFoundLater(t *testing.T) {
	o := testOptions(t.TempDir())
	s, _ := mustOpen(t, o)
	mustSync(t, s, dirA, fifty())
	s.Close()
	s, _ = mustOpen(t, o)
	info, err := os.Stat(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	overwrite(t, o.Path, 4096, strings.Repeat("\xA5", int(info.Size())-4096))
	wantClass(t, readOnEvery(t, s, 4), pod.Internal, o.Path, "restart podsteadd")
	if h := s.Health(); h.Reason != "Corrupt" || !strings.Contains(h.Message, "backup") {
		t.Errorf("health %+v", h)
	}
	s.Close() //nolint:errcheck // the file is damaged
	s, report := mustOpen(t, o)
	defer s.Close()
	if report.Pods != 50 {
		t.Errorf("report %+v", report)
	}
}

func TestOpenDamagedWithoutABackup(t *testing.T) {
	o := testOptions(t.TempDir())
	o.BackupPath = ""
	s, _ := mustOpen(t, o)
	s.Close()
	overwrite(t, o.Path, 0, "no database")
	wantClass(t, openError(t, o), pod.Invalid, o.Path, "damaged", "no backup", "move it away")
	if data, err := os.ReadFile(o.Path); err != nil || !strings.HasPrefix(string(data), "no database") {
		t.Error("the damaged file was touched")
	}
}

func TestOpenAfterACrashInTheMiddleOfMaking(t *testing.T) {
	o := testOptions(t.TempDir())
	if err := os.WriteFile(o.Path+".new", []byte("half a database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(o.Path, nil, 0o600); err != nil { // a power cut can leave this
		t.Fatal(err)
	}
	s, report := mustOpen(t, o)
	defer s.Close()
	if !report.Created {
		t.Errorf("report %+v", report)
	}
	mustSync(t, s, dirA, set(submission("web")))
}

func TestOthersLockDelaysButDoesNotSurface(t *testing.T) {
	s, _ := newStore(t)
	other, err := openSQLite("sqlite", s.path, "_txlock=immediate", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.Begin()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := s.SyncSource(context.Background(), dirA, set(submission("web")))
		done <- err
	}()
	// Readers are not held up meanwhile.
	if _, err := s.UIDs(t.Context()); err != nil {
		t.Error(err)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func overwrite(t *testing.T, path string, at int64, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte(text), at); err != nil {
		t.Fatal(err)
	}
}

func truncate(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// fillUp writes until the file system is full.
func fillUp(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); err != nil {
			return
		}
	}
}

// A database of the first version, with a pod that runs, one whose container was
// cut off from its sandbox, and a back-off.
func TestMigrationFromTheFirstVersion(t *testing.T) {
	o := testOptions(t.TempDir())
	db, err := openWriter("sqlite", o.Path)
	if err != nil {
		t.Fatal(err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db.DB, migrations.FS, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.UpTo(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	_, err = db.Exec(`
		INSERT INTO meta (key, value) VALUES ('node_id', 'node-1'), ('boot_id', 'boot-1');
		INSERT INTO sources (id, kind, location, configured, synced, last_error) VALUES ('directory:/a', 'directory', '/a', 1, 1, '');
		INSERT INTO desired_pods (uid, namespace, name, source, unit, place, incarnation, generation, revision, manifest, manifest_hash, created_at,
			deletion_grace_ns, deletion_cause, deletion_detail, state, state_at, status, resource_version)
			VALUES ('u', 'default', 'web', 'directory:/a', 'web.yaml', 'web.yaml', 1, 1, 1, '{"metadata":{"namespace":"default","name":"web"}}', 'h', '2026-01-01T00:00:00.000000Z', 0, '', '', 'Running', '2026-01-01T00:00:00.000000Z', '{}', 1);
		INSERT INTO observed_sandboxes (id, namespace, pod, pod_uid, infra_id, name, attempt, revision, manifest_hash, state, ips, started_at, changed_at)
			VALUES ('box', 'default', 'web', 'u', 'infra', 'k8s_web', 0, 1, 'h', 'running', '[]', '2026-01-01T00:00:02.000000Z', '2026-01-01T00:00:02.000000Z');
		INSERT INTO observed_containers (id, namespace, pod, container, pod_uid, kind, name, sandbox_id, attempt, revision, state, image, image_id, pid, exit_code, oom_killed, error, log_path, started_at, end_cause, end_detail, changed_at)
			SELECT id, 'default', 'web', id, 'u', 'container', id, 'box', 0, 1, 'running', 'i', 'i', 7, 0, 0, '', '', at, '', '', at
			FROM (SELECT 'main' AS id, '2026-01-01T00:00:03.000000Z' AS at UNION ALL SELECT 'cut', '2026-01-01T00:00:01.000000Z');
		INSERT INTO backoffs (pod_uid, container, kind, namespace, pod, failures, reason, message) VALUES ('u', 'main', 'crash', 'default', 'web', 3, 'CrashLoopBackOff', '')`)
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	s, report := mustOpen(t, o)
	defer s.Close()
	if !slices.Equal(report.Migrated, []int64{2}) {
		t.Errorf("applied %v", report.Migrated)
	}
	snap, err := s.Load(t.Context(), "u")
	if err != nil {
		t.Fatal(err)
	}
	if b := snap.Observed.Sandboxes; len(b) != 1 || b[0].Run != 1 {
		t.Errorf("sandboxes %+v", b)
	}
	for _, c := range snap.Observed.Containers {
		if want := map[string]int{"main": 1, "cut": 0}[c.ID]; c.SandboxRun != want {
			t.Errorf("%s was started in run %d of its sandbox; want %d", c.ID, c.SandboxRun, want)
		}
	}
	if b := snap.Desired.Backoffs; len(b) != 1 || b[0].Failures != 3 || b[0].Unavailable {
		t.Errorf("back-offs %+v", b)
	}
}
