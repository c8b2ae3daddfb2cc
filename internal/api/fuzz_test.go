package api_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"podstead.io/podstead/internal/api"
	"podstead.io/podstead/internal/introspect"
	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/store"
	"podstead.io/podstead/internal/wire"
)

// engine gives the SQL engine the shape that the API declares.
type engine struct{ *introspect.Engine }

func (e engine) Query(ctx context.Context, text string, args ...any) (wire.Rows, error) {
	r, err := e.Engine.Query(ctx, text, args...)
	return wire.Rows(r), err
}

var sqlLimits = introspect.Limits{Time: 200 * time.Millisecond, Rows: 50, Bytes: 1 << 16}

// FuzzSQL: whatever is posted to /sql, in whichever form, the answer is JSON
// within the limits, the database and its directory stay what they were, and the
// time is bounded.
func FuzzSQL(f *testing.F) {
	for _, text := range sqlSeeds(f) {
		f.Add(text, false)
		body, err := json.Marshal(wire.Query{Query: text, Parameters: json.RawMessage(`{"n":1}`)})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(body), true)
	}
	f.Add(`{"query":"select ?1, ?2","parameters":[1e400,[{}]]}`, true)
	f.Add(`{"query":"select 1","parameters":{"":null}}`, true)
	dir := f.TempDir()
	handler, patient := sqlAgent(f, dir)
	before, content := filesIn(f, dir), contents(f, patient)
	f.Fuzz(func(t *testing.T, body string, isJSON bool) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/sql", strings.NewReader(body))
		r.Header.Set("Content-Type", map[bool]string{true: "application/json", false: "text/plain"}[isJSON])
		w := httptest.NewRecorder()
		start := time.Now()
		handler.ServeHTTP(w, r)
		if took := time.Since(start); took > 20*time.Second {
			t.Errorf("%q took %s", body, took)
		}
		checkAnswer(t, body, w)
		if after := filesIn(t, dir); !slices.Equal(before, after) {
			t.Fatalf("%q made %q of %q", body, after, before)
		}
		if contents(t, patient) != content {
			t.Fatalf("%q changed the database", body)
		}
	})
}

// checkAnswer checks what must hold of any answer.
func checkAnswer(t *testing.T, body string, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code >= 500 && w.Code != http.StatusServiceUnavailable && w.Code != http.StatusGatewayTimeout {
		t.Errorf("%q: %d %s", body, w.Code, w.Body)
	}
	if w.Code != http.StatusOK {
		var status wire.Refusal
		if err := json.Unmarshal(w.Body.Bytes(), &status); err != nil || status.Message == "" {
			t.Errorf("%q: %d, no Status: %s", body, w.Code, w.Body)
		}
		return
	}
	var rows []map[string]any
	if err := json.Unmarshal(w.Body.Bytes(), &rows); err != nil {
		t.Fatalf("%q: %v: %s", body, err, w.Body)
	}
	// Text may grow sixfold when it is escaped, and each row has its keys.
	if len(rows) > sqlLimits.Rows || w.Body.Len() > 8*sqlLimits.Bytes+sqlLimits.Rows*(256<<10) {
		t.Errorf("%q: %d rows, %d bytes", body, len(rows), w.Body.Len())
	}
}

// sqlAgent is the real handler over a real store with one pod in dir, and an
// engine that takes its time.
func sqlAgent(f *testing.F, dir string) (http.Handler, *introspect.Engine) {
	f.Helper()
	path := filepath.Join(dir, "podstead.db")
	s, _, err := store.Open(context.Background(), store.Options{Path: path, BootID: "b", Restore: manifest.Restore, ContainerEdge: lifecycle.ContainerEdge})
	if err != nil {
		f.Fatal(err)
	}
	set := manifest.Parser{NodeName: node}.Parse("web.yaml", []byte(manifestOf("web")), pod.SourceDirectory)
	if _, err := s.SyncSource(context.Background(), directory, set); err != nil || len(set.Pods) != 1 {
		f.Fatal(err, set)
	}
	var engines []*introspect.Engine
	for _, limits := range []introspect.Limits{sqlLimits, {Time: time.Minute}} {
		e, err := introspect.New(introspect.Options{Path: path, Limits: limits})
		if err != nil {
			f.Fatal(err)
		}
		engines = append(engines, e)
	}
	f.Cleanup(func() {
		for _, end := range []func() error{engines[0].Close, engines[1].Close, s.Close} {
			if err := end(); err != nil {
				f.Error(err)
			}
		}
	})
	return api.New(api.Options{Log: slog.New(slog.DiscardHandler), Pods: s, Sink: s, SQL: engine{engines[0]}}), engines[1]
}

// filesIn are the files of a directory.
func filesIn(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, e := range entries {
		found[e.Name()] = true
	}
	return slices.Sorted(maps.Keys(found))
}

// contents is what a writer could have changed.
func contents(t testing.TB, e *introspect.Engine) string {
	t.Helper()
	var b strings.Builder
	for _, q := range []string{
		"SELECT * FROM sqlite_schema ORDER BY name", "SELECT * FROM meta ORDER BY key", "SELECT * FROM desired_pods",
		"SELECT * FROM desired_containers", "SELECT * FROM sources", "SELECT * FROM transitions",
	} {
		r, err := e.Query(context.Background(), q)
		if err != nil {
			t.Fatalf("%s: %v", q, err)
		}
		text, err := json.Marshal(r.Rows)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}

// sqlSeeds are the documented queries and what would write, attach, load or take
// for ever.
func sqlSeeds(f *testing.F) []string {
	f.Helper()
	text, err := os.ReadFile("../../schema/examples.sql")
	if err != nil {
		f.Fatal(err)
	}
	return append(strings.Split(string(text), "\n\n"),
		"DELETE FROM desired_pods", "INSERT INTO meta VALUES ('x', 'y') RETURNING key", "WITH x AS (SELECT 1) DELETE FROM meta RETURNING key",
		"CREATE TEMP TABLE t AS SELECT 1", "DROP VIEW pods", "ATTACH ':memory:' AS x", "ATTACH 'x.db' AS x", "VACUUM INTO 'stolen.db'",
		"PRAGMA query_only = 0", "PRAGMA writable_schema = 1", "SELECT * FROM pragma_journal_mode('delete')",
		"SELECT load_extension('x')", "SELECT readfile('/etc/passwd')", "SELECT writefile('x', 'y')", "SELECT data FROM sqlite_dbpage",
		"SELECT 1; DELETE FROM meta", "SELECT 1) ; DELETE FROM meta; SELECT (1", "EXPLAIN DELETE FROM meta",
		"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n",
		"SELECT randomblob(1000000000)", "SELECT printf('%1000000000d', 1)", "SELECT 9e999, -9e999, x'00ff', NULL, 'a' AS a, 'b' AS a",
		"SELECT instr(format('%01200000d', 0), format('%0600000d', 1)) LIKE '%0%' GLOB '*0*'", "SELECT :n, @n, $n",
		"SELECT value FROM json_each('[1, {}, null]')", "select \x00", "select '\xff'", "/* */ -- ;", "")
}
