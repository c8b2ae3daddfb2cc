package dir

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/store"
)

// badManifests are the texts of the corpus of internal/manifest by name, which is
// each second section of its files.
func badManifests(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob("../../manifest/testdata/bad/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	marker := regexp.MustCompile(`(?m)^-- (.+)\.(yaml|json) --\n`)
	next := regexp.MustCompile(`(?m)^-- .+ --\n`)
	bad := map[string][]byte{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range marker.FindAllSubmatchIndex(text, -1) {
			body := text[at[1]:]
			if end := next.FindIndex(body); end != nil {
				body = body[:end[0]]
			}
			bad[string(text[at[2]:at[3]])] = body
		}
	}
	return bad
}

// A bad manifest that takes the place of a good one, comes beside it, or is added
// to it, changes nothing of what runs: the same pod, of the same generation.
func TestBadFilesDisturbNothing(t *testing.T) {
	s, _, err := store.Open(t.Context(), store.Options{Path: filepath.Join(t.TempDir(), "podstead.db"), BootID: "b", Restore: manifest.Restore, ContainerEdge: lifecycle.ContainerEdge})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	src := pod.Source{ID: "directory:/m", Kind: pod.SourceDirectory, Location: "/m"}
	r := newRig(t, "good.yaml", "other.yaml")
	r.parser.NodeName = "Node-A" // for which the corpus is
	check := func(name string) {
		t.Helper()
		r.scan(look{listing: true})
		if _, err := s.SyncSource(t.Context(), src, r.all()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, want := range []string{"good-node-a", "other-node-a"} {
			d, err := s.Pod(t.Context(), pod.Key{Namespace: "default", Name: want})
			if err != nil || d.Generation != 1 || d.Deletion != nil {
				t.Fatalf("%s: pod %s is %+v, %v", name, want, d, err)
			}
		}
	}
	put := func(file string, text []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(r.root, file), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	check("at first")
	for name, text := range badManifests(t) {
		put("good.yaml", text)
		check(name + ", in its place")
		put("good.yaml", append(append(onePod("good"), "---\n"...), text...))
		check(name + ", added to it")
		r.write(t, "good.yaml", "good")
		put("bad.yaml", text)
		check(name + ", beside it")
		r.remove(t, "bad.yaml")
	}
	check("in the end")
}
