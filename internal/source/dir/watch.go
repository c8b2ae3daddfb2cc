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

// arm watches what is to be watched now, and reports whether changes will be
// reported.
func (w *watch) arm() bool {
	if err := w.rearm(); err != nil {
		if !w.blind {
			w.log.Warn("changes can't be watched, so the source is checked every second; raise fs.inotify.max_user_instances or fs.inotify.max_user_watches", "error", err)
		}
		w.blind = true
		return false
	}
	if w.blind {
		w.log.Info("changes are watched again")
	}
	w.blind = false
	return true
}

func (w *watch) rearm() error {
	if w.notifier == nil {
		notifier, err := w.open()
		if err != nil {
			return err
		}
		w.notifier = notifier
		clear(w.watched)
	}
	// What came into being after it was looked for, and before its parent was
	// watched, is reported by nobody: it is looked for again.
	for range maxRearms {
		targets := w.targets()
		if err := w.follow(targets); err != nil {
			return err
		}
		if maps.EqualFunc(targets, w.targets(), os.SameFile) {
			break
		}
	}
	return nil
}

// maxRearms bounds how often a path that keeps changing is looked for at a time.
const maxRearms = 10

// follow watches the targets and nothing else.
func (w *watch) follow(targets map[string]fs.FileInfo) error {
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
			return err
		}
		w.watched[path] = info
	}
	return nil
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
	wake := wakeup{dirty: map[string]bool{}}
	matters := false
	for range maxDrained {
		if name, ok := w.relevant(e.Name); ok {
			matters = true
			wake.dirty[name] = true
		}
		select {
		case e = <-w.events():
		default:
			return wake, matters
		}
	}
	wake.everything = true // the last one taken was not looked at
	return wake, true
}

// maxDrained bounds how many reports may put a check off.
const maxDrained = 1000

// relevant reports whether a path is a manifest, or leads to them, and the name
// of the file.
func (w *watch) relevant(path string) (name string, ok bool) {
	switch {
	case path == w.path || strings.HasPrefix(w.path, path+string(filepath.Separator)):
		return filepath.Base(path), true
	case filepath.Dir(path) == w.path:
		name = filepath.Base(path)
		// A directory of links, as Kubernetes makes of a ConfigMap, is exchanged
		// by renaming "..data".
		return name, !ignored(name) || name == "..data"
	default:
		return "", false
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
