package dir

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"podstead.io/podstead/internal/pod"
)

// maxFiles is how many files a directory of manifests may have. One with more is
// another directory.
const maxFiles = 2000

// location is where the source is at the moment.
type location struct {
	dir  string
	file string // the only one, when the source is a file
	id   identity
}

// identity tells one directory from another that takes its place.
type identity struct{ dev, ino uint64 }

// root is what is known of the directory as a whole. One that (re)appears, or
// takes the place of another, may be about to be filled: made and copied into,
// mounted, checked out. What it lacks is believed to be gone only once nothing
// in it has changed for the time of confirmation.
type root struct {
	confirmation time.Duration
	id           identity
	entered      bool // some directory has been listed
	lost         bool // it was missing since it was listed
	// trusted says that what is missing from the directory is gone, whether or
	// not its unit is known: a directory that was missing or empty at the start
	// may lack files that an earlier run of the agent saw.
	trusted bool
	quiet   time.Time // since when nothing has changed
}

// recognise reports whether the directory is another than before.
func (t *root) recognise(id identity) (replaced bool) { return !t.entered || t.lost || t.id != id }

// enter notes that a place has been listed, and reports whether files that are
// missing from it are in doubt.
func (t *root) enter(at location, filled bool, now time.Time) (doubt bool) {
	replaced, first := t.recognise(at.id), !t.entered && !t.lost
	t.id, t.entered, t.lost = at.id, true, false
	if at.file != "" || first && filled {
		t.trusted = true
	}
	if !replaced || first && filled {
		return false
	}
	t.quiet = now
	return true
}

// settleDoubt says what is still in doubt, and ends it when it is time.
func (r *reader) settleDoubt() {
	var missing []string
	for name := range r.restless {
		if r.units[name].doubtful {
			missing = append(missing, name)
		}
	}
	if r.root.trusted && len(missing) == 0 {
		return
	}
	now := r.now()
	if r.found.news() {
		r.root.quiet = now
	}
	if left := r.root.confirmation - now.Sub(r.root.quiet); left > 0 {
		r.found.lookAgain(left)
		r.found.doubt = r.failure(pod.Unavailable, r.doubt(missing))
		return
	}
	for _, name := range missing {
		r.drop(name)
	}
	r.found.whole = r.found.whole || !r.root.trusted
	r.root.trusted = true
}

func (r *reader) doubt(missing []string) error {
	if len(missing) > 0 {
		return fmt.Errorf("the directory was replaced, and %s is missing; pods of missing files stay until nothing has changed here for %s", unitName(slices.Min(missing)), r.root.confirmation)
	}
	return fmt.Errorf("the directory was missing or empty when the agent started; pods of missing files stay until nothing has changed here for %s", r.root.confirmation)
}

// locate finds the source, and whether it is a directory or a file.
func (r *reader) locate() (location, error) {
	info, err := os.Stat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return location{}, r.failure(pod.NotFound, errors.New("there is no such directory or file; make it, or correct --pod-manifest-path"))
	case err != nil:
		return location{}, r.failure(pod.Unavailable, err)
	case info.Mode().IsRegular():
		return location{dir: filepath.Dir(r.path), file: filepath.Base(r.path)}, nil
	case !info.IsDir():
		return location{}, r.failure(pod.Invalid, errors.New("this is neither a directory nor a file"))
	}
	st := info.Sys().(*syscall.Stat_t)
	return location{dir: r.path, id: identity{uint64(st.Dev), st.Ino}}, nil
}

// list is the names of the files.
func (r *reader) list(at location) ([]string, error) {
	if at.file != "" {
		return []string{at.file}, nil
	}
	entries, err := os.ReadDir(at.dir)
	if err != nil {
		return nil, r.failure(pod.Unavailable, err)
	}
	var names []string
	for _, e := range entries {
		if !ignored(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if len(names) > maxFiles {
		return nil, r.failure(pod.Invalid, fmt.Errorf("it has %d files, and may have %d; is it the right one?", len(names), maxFiles))
	}
	return names, nil
}

func (r *reader) failure(class pod.Class, err error) error {
	return &pod.Error{Class: class, Op: "read manifests in", Object: r.path, Err: err}
}
