package introspect

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/store"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newEngine is an engine over a store with one pod, in a directory of its own.
func newEngine(t testing.TB, limits Limits) (*Engine, string) {
	t.Helper()
	dir := t.TempDir()
	s, _, err := store.Open(context.Background(), store.Options{
		Path: filepath.Join(dir, "podstead.db"),
		Restore: func(data []byte) (*corev1.Pod, error) {
			var p corev1.Pod
			return &p, json.Unmarshal(data, &p)
		},
		ContainerEdge: func(_ pod.Transition, _, _ *pod.Container) []pod.Transition { return nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	p := &corev1.Pod{}
	p.Namespace, p.Name = "default", "web"
	p.Spec.Containers = []corev1.Container{{Name: "main", Image: "nginx"}, {Name: "side", Image: "busybox"}}
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	sub := pod.Submission{Pod: p, Manifest: data, Hash: "h", Unit: "web.yaml", Place: "web.yaml"}
	if _, err := s.SyncSource(context.Background(), pod.Source{ID: "directory:/a", Kind: pod.SourceDirectory}, pod.SourceSet{Pods: []pod.Submission{sub}}); err != nil {
		t.Fatal(err)
	}
	e, err := New(Options{Path: filepath.Join(dir, "podstead.db"), Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, dir
}

func mustQuery(t testing.TB, e *Engine, text string, args ...any) Result {
	t.Helper()
	r, err := e.Query(context.Background(), text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return r
}

func TestQueriesAreAnswered(t *testing.T) {
	e, _ := newEngine(t, Limits{})
	for _, test := range []struct {
		text    string
		args    []any
		columns []string
		rows    [][]any
	}{
		{"SELECT namespace, name, generation FROM pods", nil, []string{"namespace", "name", "generation"}, [][]any{{"default", "web", int64(1)}}},
		{"select 1, 1.5, 'x', NULL, x'00ff' ; ", nil, []string{"1", "1.5", "'x'", "NULL", "x'00ff'"}, [][]any{{int64(1), 1.5, "x", nil, []byte{0, 255}}}},
		{"SELECT container FROM containers ORDER BY container DESC -- the last", nil, []string{"container"}, [][]any{{"side"}, {"main"}}},
		{"/* first */ VALUES (1), (2);;", nil, []string{"column1"}, [][]any{{int64(1)}, {int64(2)}}},
		{"SELECT a.name, b.name FROM pods a, pods b", nil, []string{"name", "name"}, [][]any{{"web", "web"}}},
		{"SELECT ? AS a, ?2 AS b", []any{"x", int64(7)}, []string{"a", "b"}, [][]any{{"x", int64(7)}}},
		{"SELECT :n AS n, @m AS m", []any{sql.Named("n", "x"), sql.Named("m", nil)}, []string{"n", "m"}, [][]any{{"x", nil}}},
		{"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3) SELECT i FROM n", nil, []string{"i"}, [][]any{{int64(1)}, {int64(2)}, {int64(3)}}},
		{"SELECT value ->> '$.image' AS image FROM desired_pods, json_each(manifest, '$.spec.containers') ORDER BY key", nil, []string{"image"}, [][]any{{"nginx"}, {"busybox"}}},
		{"SELECT ';--' AS \"a;b\", [c] FROM (SELECT 1 AS c)", nil, []string{"a;b", "c"}, [][]any{{";--", int64(1)}}},
		{"WITH q AS (SELECT * FROM pods) SELECT count(*) FROM q", nil, []string{"count(*)"}, [][]any{{int64(1)}}},
		{"SELECT name FROM pods WHERE 0", nil, []string{"name"}, [][]any{}},
		{"SELECT name FROM pragma_table_info('why') WHERE cid < 2 ORDER BY cid", nil, []string{"name"}, [][]any{{"namespace"}, {"pod"}}},
		{"SELECT sum(ready) OVER () AS s FROM containers LIMIT 1", nil, []string{"s"}, [][]any{{int64(0)}}},
	} {
		got := mustQuery(t, e, test.text, test.args...)
		if !slices.Equal(got.Columns, test.columns) || !reflect.DeepEqual(got.Rows, test.rows) || got.Truncated != "" {
			t.Errorf("%s\ngives %v %v, want %v %v", test.text, got.Columns, got.Rows, test.columns, test.rows)
		}
	}
	if r := mustQuery(t, e, "EXPLAIN QUERY PLAN SELECT * FROM pods"); len(r.Rows) == 0 || r.Columns[3] != "detail" {
		t.Errorf("plan %+v", r)
	}
	// SQLite turns goose's TIMESTAMP column into text.
	if r := mustQuery(t, e, "SELECT tstamp FROM goose_db_version"); reflect.TypeOf(r.Rows[0][0]).Kind() != reflect.String {
		t.Errorf("a time is a %T", r.Rows[0][0])
	}
}

func TestErrorsAreSQLitesOwn(t *testing.T) {
	e, _ := newEngine(t, Limits{})
	for text, says := range map[string]string{
		"SELEC 1":                               `near "SELEC": syntax error`,
		"SELECT nme FROM pods":                  "no such column: nme",
		"SELECT * FROM nosuch":                  "no such table: nosuch",
		`SELECT * FROM pods WHERE name = "web"`: `no such column: "web"`,
		"SELECT 1) UNION SELECT (2":             "syntax error",
		"":                                      "no statement",
		" ; -- nothing":                         "no statement",
		"SELECT 1; SELECT 2":                    "one statement at a time",
		"SELECT 'x":                             "' is missing",
		"SELECT 1 /* x":                         "*/ is missing",
		"SELECT 1\x00":                          "NUL",
		"SELECT ?":                              "missing argument",
		"DELETE FROM pods":                      "podstead delete",
		"/**/ begin":                            "only reads",
		"EXPLAIN DELETE FROM desired_pods":      "more than read",
		"SELECT abs(-9223372036854775808)":      "integer overflow",
	} {
		_, err := e.Query(t.Context(), text)
		class := pod.Invalid
		if slices.Contains([]string{"podstead delete", "only reads", "more than read"}, says) {
			class = pod.Forbidden
		}
		if pod.ClassOf(err) != class || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %s", text, err, says)
		}
	}
}

// hostile statements would write, reach outside of the database, see what is
// not for them, or change the connection.
var hostile = []string{
	"INSERT INTO meta VALUES ('x', 'y')",
	"UPDATE desired_pods SET name = 'x'",
	"DELETE FROM desired_pods",
	"REPLACE INTO meta VALUES ('node_id', 'y')",
	"WITH x AS (SELECT 1) DELETE FROM desired_pods",
	"WITH x AS (SELECT 1) INSERT INTO meta SELECT 'a', 'b' FROM x RETURNING key",
	"INSERT INTO meta VALUES ('x', 'y') RETURNING key",
	"DELETE FROM desired_pods RETURNING uid",
	"UPDATE meta SET value = 'x' RETURNING value",
	"CREATE TABLE t (x)",
	"CREATE TABLE t AS SELECT 1",
	"CREATE TEMP TABLE t (x)",
	"CREATE TEMP TABLE t AS SELECT * FROM pods",
	"CREATE VIEW v AS SELECT 1",
	"CREATE TEMP VIEW pods AS SELECT 1",
	"CREATE INDEX i ON meta (value)",
	"CREATE TEMP TRIGGER g AFTER INSERT ON meta BEGIN SELECT 1; END",
	"CREATE VIRTUAL TABLE v USING fts5(x)",
	"DROP TABLE desired_pods",
	"DROP VIEW pods",
	"ALTER TABLE meta RENAME TO x",
	"ALTER TABLE meta ADD COLUMN x",
	"ATTACH '%s' AS x",
	"ATTACH ':memory:' AS x",
	"ATTACH 'file:%s?mode=rwc' AS x",
	"DETACH main",
	"VACUUM",
	"VACUUM INTO '%s'",
	"PRAGMA query_only = 0",
	"PRAGMA query_only(0)",
	"PRAGMA writable_schema = 1",
	"PRAGMA journal_mode = DELETE",
	"PRAGMA wal_checkpoint(TRUNCATE)",
	"PRAGMA user_version = 7",
	"PRAGMA temp_store_directory = '/tmp'",
	"PRAGMA hard_heap_limit = 1",
	"PRAGMA trusted_schema = 1",
	"PRAGMA incremental_vacuum",
	"PRAGMA optimize",
	"SELECT * FROM pragma_journal_mode('delete')",
	"SELECT * FROM pragma_wal_checkpoint('truncate')",
	"SELECT * FROM pragma_user_version(7)",
	"SELECT * FROM pragma_query_only(0)",
	"SELECT * FROM pragma_database_list",
	"SELECT data FROM sqlite_dbpage",
	"SELECT count(*) FROM sqlite_dbpage",
	"SELECT * FROM dbstat",
	"SELECT count(*) FROM dbstat",
	"SELECT * FROM sqlite_temp_master",
	"SELECT load_extension('%s')",
	"SELECT load_extension('libm.so', 'sin')",
	"SELECT fts3_tokenizer('simple')",
	"SELECT readfile('/etc/passwd')",
	"SELECT writefile('%s', 'x')",
	"SELECT edit('x')",
	"SELECT randomblob(100000000)",
	"SELECT zeroblob(100000000)",
	"SELECT sqlite_log(1, 'x')",
	"SELECT sqlite_offset(name) FROM pods",
	"SELECT last_insert_rowid()",
	"SELECT json_patch('{}', '{}')",
	"SELECT json_pretty('[]')",
	"SELECT sqlite_compileoption_get(1)",
	"BEGIN",
	"BEGIN IMMEDIATE",
	"COMMIT",
	"ROLLBACK",
	"SAVEPOINT s",
	"RELEASE s",
	"REINDEX",
	"ANALYZE",
	"EXPLAIN DELETE FROM desired_pods",
	"EXPLAIN QUERY PLAN INSERT INTO meta VALUES ('x', 'y')",
	"SELECT 1; DELETE FROM desired_pods",
	"SELECT 1;\nDELETE FROM desired_pods",
	"SELECT 1 /*;*/; DELETE FROM desired_pods --",
	"SELECT 1) ; DELETE FROM desired_pods; SELECT (1",
	"SELECT 1) SELECT * FROM podstead_result; DELETE FROM meta --",
}

// fingerprint is everything in the directory, names and contents, but for the
// shared memory that SQLite keeps its locks in.
func fingerprint(t testing.TB, dir string) map[string]string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, entry := range entries {
		// Opening the database itself here would drop SQLite's locks on it.
		if strings.HasSuffix(entry.Name(), "-shm") || entry.Name() == "podstead.db" {
			out[entry.Name()] = ""
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, entry.Name()))
		if err != nil {
			t.Fatal(err)
		}
		out[entry.Name()] = fmt.Sprintf("%x", sha256.Sum256(data))
	}
	return out
}

func TestHostileStatements(t *testing.T) {
	e, dir := newEngine(t, Limits{})
	before := fingerprint(t, dir)
	content := contents(t, e)
	for _, text := range hostile {
		text = strings.ReplaceAll(text, "%s", filepath.Join(dir, "stolen"))
		r, err := e.Query(t.Context(), text)
		if err == nil {
			t.Errorf("%s was answered: %v", text, r.Rows)
			continue
		}
		if c := pod.ClassOf(err); c != pod.Forbidden && c != pod.Invalid {
			t.Errorf("%s: class %s: %v", text, pod.ClassOf(err), err)
		}
	}
	if after := fingerprint(t, dir); !reflect.DeepEqual(before, after) {
		t.Errorf("the directory became %v, was %v", after, before)
	}
	if after := contents(t, e); after != content {
		t.Errorf("the database became\n%s\nwas\n%s", after, content)
	}
}

// contents is what a writer could have changed.
func contents(t testing.TB, e *Engine) string {
	t.Helper()
	text := ""
	for _, q := range []string{
		"SELECT * FROM sqlite_schema ORDER BY name", "SELECT * FROM meta ORDER BY key", "SELECT * FROM desired_pods",
		"SELECT * FROM desired_containers", "SELECT * FROM sources", "SELECT * FROM goose_db_version",
	} {
		text += fmt.Sprintln(mustQuery(t, e, q).Rows)
	}
	return text
}

// Each connection is guarded, those opened after another was thrown away too.
func TestEveryConnectionIsGuarded(t *testing.T) {
	e, _ := newEngine(t, Limits{Time: time.Second, Parallel: 3})
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			for range 2 {
				if _, err := e.Query(t.Context(), endless); !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("an endless query: %v", err)
				}
				if _, err := e.Query(t.Context(), "PRAGMA query_only = 0"); pod.ClassOf(err) != pod.Forbidden {
					t.Errorf("a pragma: %v", err)
				}
			}
		})
	}
	all.Wait()
}

const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"

func TestTimeIsLimited(t *testing.T) {
	e, _ := newEngine(t, Limits{Time: 300 * time.Millisecond})
	for _, text := range []string{
		endless,
		// The first row comes at once, the second never.
		"SELECT 1 UNION ALL SELECT * FROM (" + endless + ")",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n WHERE i < 3",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT 100000000) SELECT max(i) FROM n",
	} {
		start := time.Now()
		_, err := e.Query(t.Context(), text)
		if !errors.Is(err, context.DeadlineExceeded) || pod.ClassOf(err) != pod.Unavailable || !strings.Contains(err.Error(), "300ms") {
			t.Errorf("%s: %v", text, err)
		}
		if took := time.Since(start); took > 3*time.Second {
			t.Errorf("%s took %s", text, took)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Query(ctx, "SELECT 1"); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled query: %v", err)
	}
}

func TestRowsAndBytesAreLimited(t *testing.T) {
	e, _ := newEngine(t, Limits{Rows: 5, Bytes: 1000})
	numbers := "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT %s FROM n"
	for _, test := range []struct {
		n         int
		what      string
		rows      int
		truncated string
	}{
		{5, "i", 5, ""},
		{6, "i", 5, "rows"},
		{1_000_000, "i", 5, "rows"},
		{5, "format('%0300d', i)", 3, "bytes"},
		{1, "format('%02000d', i)", 0, "bytes"},
	} {
		r := mustQuery(t, e, fmt.Sprintf(numbers, test.n, test.what))
		if len(r.Rows) != test.rows || r.Truncated != test.truncated {
			t.Errorf("%d rows of %s: %d rows, truncated %q", test.n, test.what, len(r.Rows), r.Truncated)
		}
	}
	if _, err := e.Query(t.Context(), "SELECT length(format('%02000000d', 1))"); pod.ClassOf(err) != pod.Invalid {
		t.Errorf("a value too large: %v", err)
	}
	if _, err := e.Query(t.Context(), "SELECT '"+strings.Repeat("x", 70_000)+"'"); pod.ClassOf(err) != pod.Invalid {
		t.Errorf("a text too long: %v", err)
	}
}

func TestMemoryIsLimited(t *testing.T) {
	e, _ := newEngine(t, Limits{Time: time.Minute, Memory: 32 << 20})
	before := resident()
	_, err := e.Query(t.Context(), "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 100000) SELECT max(x) FROM (SELECT format('%0400000d', i) AS x FROM n ORDER BY x)")
	if pod.ClassOf(err) != pod.Invalid || !strings.Contains(err.Error(), "32 MiB") {
		t.Errorf("a sort of 40 GB: %v", err)
	}
	if grown := resident() - before; grown > 256<<20 {
		t.Errorf("the process grew by %d MiB", grown>>20)
	}
}

func TestParallelQueriesAreLimited(t *testing.T) {
	e, _ := newEngine(t, Limits{Time: 400 * time.Millisecond, Parallel: 1})
	started := make(chan struct{})
	var all sync.WaitGroup
	all.Go(func() {
		close(started)
		if _, err := e.Query(t.Context(), endless); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	})
	<-started
	for len(e.turns) == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := e.Query(ctx, "SELECT 1")
	if pod.ClassOf(err) != pod.Busy || !strings.Contains(err.Error(), "1 queries are running") {
		t.Errorf("a second query: %v", err)
	}
	all.Wait()
	mustQuery(t, e, "SELECT 1")
}

func TestSingle(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT 1":               "SELECT 1",
		"SELECT 1;":              "SELECT 1",
		"SELECT 1 ; -- x\n /**/": "SELECT 1 ",
		"SELECT ';'":             "SELECT ';'",
		`SELECT ";""" FROM [;]`:  `SELECT ";""" FROM [;]`,
		"SELECT `a``;` -- ;":     "SELECT `a``;` -- ;",
		"SELECT 1 - -1 / 2 * 3":  "SELECT 1 - -1 / 2 * 3",
	} {
		if got, err := single(text); err != nil || got != want {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

func FuzzQuery(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	f.Add("SELECT * FROM pods, containers ORDER BY 1")
	f.Add("WITH x AS MATERIALIZED (SELECT 1) SELECT * FROM x")
	e, dir := newEngine(f, Limits{Time: 200 * time.Millisecond, Rows: 50, Bytes: 1 << 16})
	patient, err := New(Options{Path: filepath.Join(dir, "podstead.db"), Limits: Limits{Time: time.Minute}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { patient.Close() })
	before, content := fingerprint(f, dir), contents(f, patient)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := e.Query(t.Context(), text)
		if err != nil && pod.ClassOf(err) == pod.Internal {
			t.Errorf("%q: %v", text, err)
		}
		for _, row := range r.Rows {
			if len(row) != len(r.Columns) {
				t.Errorf("%q: %d values in %d columns", text, len(row), len(r.Columns))
			}
		}
		if after := fingerprint(t, dir); !reflect.DeepEqual(before, after) {
			t.Fatalf("%q changed the directory", text)
		}
		if contents(t, patient) != content {
			t.Fatalf("%q changed the database", text)
		}
	})
}
