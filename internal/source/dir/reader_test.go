package dir

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"podstead.io/podstead/internal/manifest"
)

func onePod(name string) []byte {
	return fmt.Appendf(nil, "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: busybox}]}\n", name)
}

// rig is a reader over a directory, with a clock that stands still.
type rig struct {
	*reader
	root string
	time time.Time
}

func newRig(t *testing.T, files ...string) *rig {
	t.Helper()
	r := &rig{root: t.TempDir(), time: time.Now().Add(time.Hour)} // every file is old
	r.reader = newReader(r.root, manifest.Parser{NodeName: "n", Limits: manifest.Limits{}.WithDefaults()}, time.Minute, slog.New(slog.DiscardHandler))
	r.now = func() time.Time { return r.time }
	for _, name := range files {
		r.write(t, name, strings.TrimSuffix(name, ".yaml"))
	}
	return r
}

func (r *rig) write(t *testing.T, file, name string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.root, file), onePod(name), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) remove(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(filepath.Join(r.root, file)); err != nil {
		t.Fatal(err)
	}
}

// A report about one file of many is a matter of that file: no other is looked
// at, however it has changed.
func TestReportCostsOneFile(t *testing.T) {
	var files []string
	for i := range 1000 {
		files = append(files, fmt.Sprintf("p%d.yaml", i))
	}
	r := newRig(t, files...)
	if found := r.scan(look{listing: true}); !found.whole && len(found.changed) != 1000 {
		t.Fatalf("at first: %+v", found)
	}
	for i := range 1000 {
		r.write(t, fmt.Sprintf("p%d.yaml", i), fmt.Sprintf("q%d", i))
	}
	found := r.scan(look{dirty: map[string]report{"p7.yaml": touched}})
	if !slices.Equal(found.changed, []string{"p7.yaml"}) || found.whole || found.again != 0 {
		t.Errorf("of one file: %d changed, all %v, again in %v", len(found.changed), found.whole, found.again)
	}
	set := r.some(found.changed)
	if len(set.Pods) != 1 || set.Pods[0].Pod.Name != "q7-n" || !slices.Equal(set.Units, found.changed) {
		t.Errorf("told %d pods of %q", len(set.Pods), set.Units)
	}
	if found := r.scan(look{}); found.news() {
		t.Errorf("of none: %q", found.changed)
	}
	if found := r.scan(look{listing: true}); len(found.changed) != 999 {
		t.Errorf("of all: %d", len(found.changed))
	}
}

func TestDeletedFileIsBelievedSooner(t *testing.T) {
	for what, want := range map[report]time.Duration{touched: goneTime, unlinked: unlinkTime} {
		r := newRig(t, "a.yaml", "b.yaml")
		r.scan(look{listing: true})
		r.remove(t, "a.yaml")
		found := r.scan(look{dirty: map[string]report{"a.yaml": what}})
		if found.news() || found.again != want {
			t.Errorf("report %v: news %v, again in %v, want %v", what, found.changed, found.again, want)
		}
		r.time = r.time.Add(want)
		if found = r.scan(look{}); !slices.Equal(found.changed, []string{"a.yaml"}) {
			t.Errorf("report %v: %q after %v", what, found.changed, want)
		}
		if set := r.some(found.changed); !slices.Equal(set.Gone, []string{"a.yaml"}) {
			t.Errorf("gone: %q", set.Gone)
		}
	}
}

// Deleting a directory with all its files goes from file to file, and is no wish
// to have no pods: as long as files go, none is believed to be gone.
func TestDeletingTheDirectoryIsNotDeletingItsFiles(t *testing.T) {
	r := newRig(t, "a.yaml", "b.yaml", "c.yaml")
	r.scan(look{listing: true})
	for _, name := range []string{"a.yaml", "b.yaml", "c.yaml"} {
		r.remove(t, name)
		if found := r.scan(look{dirty: map[string]report{name: unlinked}}); found.news() {
			t.Errorf("%s: %q", name, found.changed)
		}
		r.time = r.time.Add(unlinkTime - time.Millisecond)
	}
	if err := os.Remove(r.root); err != nil {
		t.Fatal(err)
	}
	r.time = r.time.Add(time.Hour)
	if found := r.scan(look{}); found.err == nil || len(r.units) != 3 {
		t.Errorf("without its directory: %+v, %d units", found, len(r.units))
	}
	if err := os.Mkdir(r.root, 0o700); err != nil {
		t.Fatal(err)
	}
	r.write(t, "b.yaml", "b")
	found := r.scan(look{})
	if found.news() || found.doubt == nil || found.again != time.Minute {
		t.Errorf("with another directory: %+v", found)
	}
	// Whatever comes puts the confirmation off.
	r.time = r.time.Add(50 * time.Second)
	r.write(t, "d.yaml", "d")
	if found = r.scan(look{dirty: map[string]report{"d.yaml": touched}}); !slices.Equal(found.changed, []string{"d.yaml"}) || found.again != time.Minute {
		t.Errorf("with a new file: %+v", found)
	}
	r.time = r.time.Add(time.Minute)
	if found = r.scan(look{listing: true}); found.doubt != nil || len(found.changed) != 2 || len(r.units) != 2 {
		t.Errorf("once it was quiet: %+v, %d units", found, len(r.units))
	}
}

// A directory that takes the place of another, with the same files and more, is
// in no doubt.
func TestReplacedDirectoryThatLacksNothing(t *testing.T) {
	r := newRig(t, "a.yaml")
	r.scan(look{listing: true})
	r.write(t, "b.yaml", "b")
	found := r.scan(look{replaced: true})
	if found.doubt != nil || !slices.Equal(found.changed, []string{"b.yaml"}) {
		t.Errorf("%+v", found)
	}
}

// A file that grows beyond all bounds is one refusal, whatever its size.
func TestGrowingFileIsNoNews(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(r.root, "log.yaml")
	news := 0
	for i := range 5 {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, int64(10+i)<<20); err != nil {
			t.Fatal(err)
		}
		news += len(r.scan(look{listing: true}).changed)
	}
	if news != 1 {
		t.Errorf("it was news %d times", news)
	}
}
