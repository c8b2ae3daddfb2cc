package dir

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"podstead.io/podstead/internal/manifest"
)

func TestWritersOf(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	writer, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if w := writersOf(reader); w != someWriters {
		t.Errorf("with a writer: %v", w)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if w := writersOf(reader); w != noWriters {
			t.Errorf("without a writer: %v", w)
		}
	}
	// The lease is back: a writer that will not wait gets in.
	writer, err = os.OpenFile(path, os.O_WRONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Errorf("a writer is kept out: %v", err)
	} else if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	pipe, end, err := os.Pipe() // which can't be leased
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	defer end.Close()
	if w := writersOf(pipe); w != unknownWriters {
		t.Errorf("where there are no leases: %v", w)
	}
}

func TestSettled(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	const ms = time.Millisecond
	tests := []struct {
		name                    string
		w                       writers
		mtime, since, unsettled time.Duration // ago
		want                    time.Duration
	}{
		{"nobody writes", noWriters, 0, 0, 0, 0},
		{"just opened", someWriters, 0, 0, 0, firstLook},
		{"open for 10 ms", someWriters, 0, 0, 10 * ms, 5 * ms},
		{"open for a second", someWriters, 0, 0, time.Second, lastLook},
		{"open for long, still written", someWriters, 0, 10 * ms, 10 * time.Second, lastLook},
		{"open for long, the same for long", someWriters, time.Second, time.Second, 5 * time.Second, 0},
		{"open and the same, not for long", someWriters, time.Hour, 4 * time.Second, 4 * time.Second, lastLook},
		{"unknown, an old file", unknownWriters, time.Second, 0, 0, 0},
		{"unknown, written just now", unknownWriters, 0, 0, 0, quietTime},
		{"unknown, the same for 60 ms", unknownWriters, 60 * ms, 60 * ms, 60 * ms, 40 * ms},
		{"unknown, the same for 100 ms", unknownWriters, 0, 100 * ms, 100 * ms, 0},
		{"unknown, from the future", unknownWriters, -time.Hour, 0, 0, quietTime},
		{"unknown, from the future and quiet", unknownWriters, -time.Hour, 100 * ms, 200 * ms, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen := sighting{signature: signature{mtime: ago(tt.mtime).UnixNano()}, since: ago(tt.since), unsettled: ago(tt.unsettled)}
			if got := settled(tt.w, seen, now); got != tt.want {
				t.Errorf("wait %v, want %v", got, tt.want)
			}
		})
	}
}

func TestIgnored(t *testing.T) {
	for _, name := range []string{".a", "..data", "a~", "#a#", "4913", "a.swp", "a.yaml.bak", "a.orig", "x.rpmsave", "a.yaml___jb_tmp___"} {
		if !ignored(name) {
			t.Errorf("%s is read", name)
		}
	}
	for _, name := range []string{"a", "a.yaml", "a.yml", "a.json", "a#b", "#a", "swp", "bak.yaml", "49130"} {
		if ignored(name) {
			t.Errorf("%s is ignored", name)
		}
	}
}

// Without inotify the source is checked often, and watching is tried again.
func TestWithoutWatches(t *testing.T) {
	root := t.TempDir()
	d := New(Options{Path: root, Parser: manifest.Parser{NodeName: "n"}, CheckFrequency: time.Hour, Log: slog.New(slog.DiscardHandler)})
	d.delivery.synced, d.delivery.told, d.listed = true, true, time.Now()
	limit := true
	d.watch.open = func() (*fsnotify.Watcher, error) {
		if limit {
			return nil, errors.New("too many open files")
		}
		return fsnotify.NewWatcher()
	}
	if watched, _ := d.watch.arm(); watched {
		t.Error("watched")
	}
	if next := d.nextCheck(false, findings{}); next != blindInterval {
		t.Errorf("the next check is in %v", next)
	}
	limit = false
	watched, fresh := d.watch.arm()
	defer d.watch.close()
	if !watched || !fresh {
		t.Errorf("watched again %v, from now %v", watched, fresh)
	}
	if next := d.nextCheck(watched, findings{}); next < 59*time.Minute {
		t.Errorf("the next check is in %v", next)
	}
}

func TestDrainIsBounded(t *testing.T) {
	w := newWatch("/m", slog.New(slog.DiscardHandler))
	events := make(chan fsnotify.Event, 2*maxDrained)
	w.notifier = &fsnotify.Watcher{Events: events}
	for range 2 * maxDrained {
		events <- fsnotify.Event{Name: "/m/.swap"}
	}
	if wake, ok := w.drain(fsnotify.Event{Name: "/m/.swap"}); !ok || !wake.everything {
		t.Errorf("%+v, %v", wake, ok)
	}
	w.notifier = nil
}

func TestRelevant(t *testing.T) {
	w := newWatch("/etc/podstead/manifests", slog.New(slog.DiscardHandler))
	for path, want := range map[string]subject{
		"/etc/podstead/manifests":           aboutTheDirectory,
		"/etc/podstead":                     aboutTheDirectory,
		"/etc/podstead/manifests/a.yaml":    aboutAFile,
		"/etc/podstead/manifests/..data":    aboutFiles,
		"/etc/podstead/manifests/a.yaml~":   aboutNothing,
		"/etc/podstead/manifests.old":       aboutNothing,
		"/etc/podstead/other":               aboutNothing,
		"/etc/podstead/manifests/sub/inner": aboutNothing,
	} {
		if what, _ := w.relevant(path); what != want {
			t.Errorf("%s is about %v, want %v", path, what, want)
		}
	}
}
