package dictionary

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGeneratedFilesAreCurrent(t *testing.T) {
	tables, err := Migrated(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"schema.sql": SQL(tables), "dictionary.md": Markdown(tables)} {
		got, err := os.ReadFile(filepath.Join("../../../schema", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("schema/%s is not what the migrations make: run go generate ./internal/store", name)
		}
	}
}

func TestEverythingIsCommented(t *testing.T) {
	tables, err := Migrated(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) < 15 {
		t.Fatalf("%d tables and views", len(tables))
	}
	for _, table := range tables {
		if !strings.HasPrefix(table.Comment, "One row ") {
			t.Errorf("%s: the first comment is %q", table.Name, table.Comment)
		}
		for _, c := range table.Columns {
			if c.Comment == "" {
				t.Errorf("%s.%s has no comment", table.Name, c.Name)
			}
		}
		if !table.View && !strings.Contains(table.SQL, "STRICT") {
			t.Errorf("%s is not STRICT", table.Name)
		}
	}
}

func TestContainerRowsCanBeJoined(t *testing.T) {
	tables, err := Migrated(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables {
		has := map[string]bool{}
		for _, c := range table.Columns {
			has[c.Name] = true
		}
		// The columns of why are fixed; it has pods that are gone as well.
		if !has["container"] || table.Name == "why" {
			continue
		}
		for _, c := range []string{"namespace", "pod", "pod_uid"} {
			if !has[c] {
				t.Errorf("%s has container but not %s", table.Name, c)
			}
		}
	}
}

func TestCommentsGoOnInTheNextLines(t *testing.T) {
	const sql = "CREATE TABLE t (\n    -- One row is a thing.\n    a TEXT NOT NULL, -- first\n    -- and more\n    b_c INTEGER -- last, and -- dashes\n) STRICT"
	for column, want := range map[string]string{"a": "first and more", "b_c": "last, and -- dashes", "c": ""} {
		if got := columnComment(sql, column, false); got != want {
			t.Errorf("%s: %q, want %q", column, got, want)
		}
	}
}
