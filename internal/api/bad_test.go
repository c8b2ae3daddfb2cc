package api_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"podstead.io/podstead/internal/pod"
)

// A request with a bad manifest in it is refused whole, and changes nothing.
func TestBadRequestsDisturbNothing(t *testing.T) {
	s := newStore(t)
	h := agentOn(t, s)
	if w := h.call(t, "POST", "/manifests", manifestOf("web"), "Content-Type", "application/yaml"); w.Code != 201 {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	files, err := filepath.Glob("../manifest/testdata/bad/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	bad := regexp.MustCompile(`(?m)^-- (.+) --\n`)
	posted := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := bad.FindAllSubmatchIndex(text, -1)
		for i := 1; i < len(at); i += 2 { // manifests are every second section
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			name, body := string(text[at[i][2]:at[i][3]]), string(text[at[i][1]:end])
			if name == "a name too long with its suffix.yaml" { // which pods from here have not
				continue
			}
			for _, body := range []string{body, manifestOf("new") + "---\n" + body} {
				if w := h.call(t, "POST", "/manifests", body, "Content-Type", "application/yaml"); w.Code < 400 || w.Code >= 500 {
					t.Errorf("%s: %d %s", name, w.Code, w.Body)
				}
				posted++
			}
		}
	}
	list, err := s.Pods(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if len(list) != 1 || list[0].Key.Name != "web" || list[0].Generation != 1 || list[0].Deletion != nil {
		t.Errorf("after %d requests there are %+v", posted, list)
	}
	if _, err := s.Pod(t.Context(), pod.Key{Namespace: "default", Name: "new"}); pod.ClassOf(err) != pod.NotFound {
		t.Errorf("half a request was taken: %v", err)
	}
	if posted < 300 {
		t.Errorf("only %d requests", posted)
	}
}
