package e2e

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestDirectory takes one directory through what people and tools do to one; what
// editors leave behind is no manifest (kubernetes#52939, kubernetes#40331).
func TestDirectory(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	web := static("web")
	a.drop(t, newPod("web", sleeper("a"), sleeper("b")))
	was := a.awaitRunning(t, web, "a", "b")

	t.Run("edit by rename", func(t *testing.T) {
		a.drop(t, newPod("web", sleeper("a"), with(sleeper("b"), "N", "1")))
		is := a.awaitGeneration(t, web, 2)
		same(t, was, is, "POD", "a")
		replaced(t, was, is, "b")
		was = is
	})
	t.Run("edit in place", func(t *testing.T) {
		a.write(t, "web.yaml", manifest(t, newPod("web", sleeper("a"), with(sleeper("b"), "N", "2"))))
		is := a.awaitGeneration(t, web, 3)
		same(t, was, is, "POD", "a")
		replaced(t, was, is, "b")
		was = is
	})
	t.Run("slow writer", func(t *testing.T) { a.slowWriter(t, web); was = a.live(t, web) })
	t.Run("broken edit", func(t *testing.T) { a.brokenEdit(t, web, was); was = a.live(t, web) })
	t.Run("several documents and JSON", a.severalDocuments)
	t.Run("files of editors", a.editorFiles)
	t.Run("directory away and back", func(t *testing.T) { a.directoryAway(t, web, was) })
	t.Run("delete", func(t *testing.T) {
		a.remove(t, "web.yaml")
		a.awaitGone(t, web)
	})
}

// slowWriter writes an edit in two parts. The first, which is a valid manifest
// of one container less, must not be taken for the whole while the file is open.
func (a *agent) slowWriter(t *testing.T, web string) {
	before := a.mustPod(t, web).Generation
	content := manifest(t, newPod("web", sleeper("a"), with(sleeper("b"), "N", "slow")))
	cut := bytes.LastIndex(content, []byte("  - command")) // where container b begins
	f, err := os.OpenFile(filepath.Join(a.manifests, "web.yaml"), os.O_WRONLY|os.O_TRUNC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(content[:cut]); err != nil {
		t.Fatal(err)
	}
	always(t, 500*time.Millisecond, "a file that is being written is left alone", func() error {
		p, err := a.pod(web)
		if err != nil {
			return err
		}
		return unless(p.Generation == before, "generation %d was made of it", p.Generation)
	})
	if _, err := f.Write(content[cut:]); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	a.awaitGeneration(t, web, before+1)
}

// rejection is an object that `podstead get rejections -o json` prints.
type rejection struct {
	Source, Place, Pod, Reason, Field, Message string
}

func (a *agent) rejections(t *testing.T) []rejection {
	t.Helper()
	var list []rejection
	if err := json.Unmarshal([]byte(a.prints(t, "get", "rejections", "-o", "json")), &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// awaitRejection waits for a rejection that names the place and the field.
func (a *agent) awaitRejection(t *testing.T, place, reason, field, words string) {
	t.Helper()
	eventually(t, place+" is rejected", func() error {
		list := a.rejections(t)
		found := slices.ContainsFunc(list, func(r rejection) bool {
			return r.Place == place && r.Reason == reason && r.Field == field && strings.Contains(r.Message, words)
		})
		return unless(found, "rejections are %+v", list)
	})
}

func (a *agent) awaitNoRejection(t *testing.T) {
	t.Helper()
	eventually(t, "nothing is rejected", func() error {
		list := a.rejections(t)
		return unless(len(list) == 0, "rejections are %+v", list)
	})
}

// brokenEdit cuts a file short, then gives it a field that does not exist, then
// mends it.
func (a *agent) brokenEdit(t *testing.T, web string, was map[string]container) {
	before := a.mustPod(t, web).Generation
	content := manifest(t, newPod("web", sleeper("a"), with(sleeper("b"), "N", "mended")))
	a.write(t, "web.yaml", content[:bytes.Index(content, []byte("trap"))+2])
	a.awaitRejection(t, "web.yaml", "Invalid", "spec.containers[0].image", "Required")
	same(t, was, a.live(t, web))

	a.write(t, "web.yaml", bytes.Replace(content, []byte("image: busybox"), []byte("imago: busybox"), 1))
	a.awaitRejection(t, "web.yaml", "Invalid", "spec.containers[0].imago", "")
	same(t, was, a.live(t, web))
	if got := a.mustPod(t, web).Generation; got != before {
		t.Errorf("a broken edit made generation %d of %d", got, before)
	}

	a.write(t, "web.yaml", content)
	is := a.awaitGeneration(t, web, before+1)
	same(t, was, is, "POD", "a")
	a.awaitNoRejection(t)
}

func (a *agent) severalDocuments(t *testing.T) {
	a.put(t, "many.yaml", manifest(t, newPod("one", sleeper("a")), newPod("two", sleeper("a"))))
	document, err := json.MarshalIndent(newPod("three", sleeper("a")), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	a.put(t, "three.json", document)
	one := a.awaitRunning(t, static("one"), "a")
	a.awaitRunning(t, static("two"), "a")
	a.awaitRunning(t, static("three"), "a")

	a.put(t, "many.yaml", manifest(t, newPod("one", sleeper("a"))))
	a.awaitGone(t, static("two"))
	same(t, one, a.live(t, static("one")))
	a.remove(t, "many.yaml")
	a.remove(t, "three.json")
	a.awaitGone(t, static("one"))
	a.awaitGone(t, static("three"))
}

// editorFiles leaves behind what editors leave behind, and then a pod: when that
// runs, the rest has been seen too.
func (a *agent) editorFiles(t *testing.T) {
	content := manifest(t, newPod("ghost", sleeper("a")))
	litter := []string{".ghost.yaml", ".ghost.yaml.swp", "ghost.yaml~", "#ghost.yaml#", "4913", "ghost.yaml.dpkg-old"}
	for _, name := range litter {
		a.put(t, name, content)
	}
	a.drop(t, newPod("marker", sleeper("a")))
	a.awaitRunning(t, static("marker"), "a")
	if _, err := a.pod(static("ghost")); err == nil {
		t.Error("a file of an editor was taken for a manifest")
	}
	a.awaitNoRejection(t)
	for _, name := range append(litter, "marker.yaml") {
		a.remove(t, name)
	}
	a.awaitGone(t, static("marker"))
}

// directoryAway moves the directory out of the way, as an unmounted disk does.
func (a *agent) directoryAway(t *testing.T, web string, was map[string]container) {
	failure := func() string {
		var sources []struct {
			Kind      string
			LastError string `json:"last_error"`
		}
		if err := json.Unmarshal([]byte(a.prints(t, "get", "sources", "-o", "json")), &sources); err != nil {
			t.Fatal(err)
		}
		for _, s := range sources {
			if s.Kind == "directory" {
				return s.LastError
			}
		}
		t.Fatalf("there is no directory among the sources %+v", sources)
		return ""
	}
	away := a.manifests + ".away"
	if err := os.Rename(a.manifests, away); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the source says that its directory is gone", func() error {
		return unless(strings.Contains(failure(), a.manifests), "it says %q", failure())
	})
	same(t, was, a.live(t, web))
	if err := os.Rename(away, a.manifests); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the source can be read again", func() error { return unless(failure() == "", "it says %q", failure()) })
	a.drop(t, newPod("back", sleeper("a")))
	a.awaitRunning(t, static("back"), "a")
	same(t, was, a.live(t, web))
	a.remove(t, "back.yaml")
	a.awaitGone(t, static("back"))
}
