package dir

import (
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fsnotify/fsnotify"
)

// watch reports changes to the directory and to what leads to it. It is a hint
// and no more: whatever it misses, the next full check finds.
type watch struct {
	path     string
	log      *slog.Logger
	notifier *fsnotify.Watcher // nil while there is none
	watched  map[string]fs.FileInfo
	blind    bool // it has been logged that there is none
	open     func() (*fsnotify.Watcher, error)
}

func newWatch(path string, log *slog.Logger) *watch {
	return &watch{path: path, log: log, watched: map[string]fs.FileInfo{}, open: fsnotify.NewWatcher}
}

// targets are the directories to watch: the source itself, if it is one, and the
// nearest one above it that exists, which reports that it comes, goes or is
// replaced. For a file that is all that is needed, since editors replace files.
func (w *watch) targets() map[string]fs.FileInfo {
	targets := map[string]fs.FileInfo{}
	if info, err := os.Stat(w.path); err == nil && info.IsDir() {
		targets[w.path] = info
	}
	for above := w.path; above != filepath.Dir(above); {
		above = filepath.Dir(above)
		if info, err := os.Stat(above); err == nil && info.IsDir() {
			targets[above] = info
			break
		}
	}
	return targets
}

// arm watches what is to be watched now. It reports whether changes will be
// reported, and whether some may not have been until now.
func (w *watch) arm() (watched, fresh bool) {
	fresh, err := w.rearm()
	if err != nil {
		if !w.blind {
			w.log.Warn("changes can't be watched, so the source is checked every second; raise fs.inotify.max_user_instances or fs.inotify.max_user_watches", "error", err)
		}
		w.blind = true
		return false, true
	}
	if w.blind {
		w.log.Info("changes are watched again")
	}
	w.blind = false
	return true, fresh
}

func (w *watch) rearm() (fresh bool, err error) {
	if w.notifier == nil {
		notifier, err := w.open()
		if err != nil {
			return true, err
		}
		w.notifier = notifier
		clear(w.watched)
	}
	// What came into being after it was looked for, and before its parent was
	// watched, is reported by nobody: it is looked for again.
	for range maxRearms {
		targets := w.targets()
		added, err := w.follow(targets)
		fresh = fresh || added
		if err != nil {
			return fresh, err
		}
		if maps.EqualFunc(targets, w.targets(), os.SameFile) {
			break
		}
	}
	return fresh, nil
}

// maxRearms bounds how often a path that keeps changing is looked for at a time.
const maxRearms = 10

// follow watches the targets and nothing else, and reports whether one of them is
// new.
func (w *watch) follow(targets map[string]fs.FileInfo) (added bool, err error) {
	alive := w.notifier.WatchList()
	for path, was := range w.watched {
		now := targets[path]
		if now == nil || !os.SameFile(was, now) || !slices.Contains(alive, path) {
			// What was watched may be gone, and its watch with it.
			_ = w.notifier.Remove(path)
			delete(w.watched, path)
		}
	}
	for path, info := range targets {
		if w.watched[path] != nil {
			continue
		}
		if err := w.notifier.Add(path); err != nil {
			return added, err
		}
		w.watched[path] = info
		added = true
	}
	return added, nil
}

// events and errors never report anything while there is no watch.
func (w *watch) events() <-chan fsnotify.Event {
	if w.notifier == nil {
		return nil
	}
	return w.notifier.Events
}

func (w *watch) errors() <-chan error {
	if w.notifier == nil {
		return nil
	}
	return w.notifier.Errors
}

// drain turns an event, and those that wait behind it, into a wake-up. It is
// false when none of them matters.
func (w *watch) drain(e fsnotify.Event) (wakeup, bool) {
	wake := wakeup{look: look{dirty: map[string]report{}}}
	matters := false
	for range maxDrained {
		matters = w.note(e, &wake.look) || matters
		select {
		case e = <-w.events():
		default:
			return wake, matters
		}
	}
	wake.listing, wake.everything = true, true // the last one taken was not looked at
	return wake, true
}

// note adds what an event is about to what is to be looked at, and reports
// whether it matters.
func (w *watch) note(e fsnotify.Event, l *look) bool {
	what, name := w.relevant(e.Name)
	switch what {
	case aboutAFile:
		l.dirty[name] = touched
		if e.Has(fsnotify.Remove) {
			l.dirty[name] = unlinked
		}
	case aboutFiles:
		l.listing = true
	case aboutTheDirectory:
		l.listing = true
		l.replaced = l.replaced || e.Has(fsnotify.Create) || e.Has(fsnotify.Remove) || e.Has(fsnotify.Rename)
	case aboutNothing:
		return false
	}
	return true
}

// maxDrained bounds how many reports may put a check off.
const maxDrained = 1000

// subject is what a report is about.
type subject int

const (
	aboutNothing subject = iota
	aboutAFile
	aboutFiles        // any of them
	aboutTheDirectory // or what leads to it
)

// relevant says what a path is to the source, and the name of a file.
func (w *watch) relevant(path string) (what subject, name string) {
	name = filepath.Base(path)
	switch {
	case path == w.path || strings.HasPrefix(w.path, path+string(filepath.Separator)):
		return aboutTheDirectory, ""
	case filepath.Dir(path) != w.path:
		return aboutNothing, ""
	case name == "..data":
		// A directory of links, as Kubernetes makes of a ConfigMap, is exchanged
		// by renaming this.
		return aboutFiles, ""
	case ignored(name):
		return aboutNothing, ""
	default:
		return aboutAFile, name
	}
}

func (w *watch) close() {
	if w.notifier == nil {
		return
	}
	if err := w.notifier.Close(); err != nil {
		w.log.Warn("the watch can't be closed", "error", err)
	}
	w.notifier = nil
}
