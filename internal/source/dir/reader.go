package dir

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

// maxFiles is how many files a directory of manifests may have. One with more is
// another directory.
const maxFiles = 2000

// reader reads the files, and remembers what they held.
type reader struct {
	path    string
	parser  manifest.Parser
	log     *slog.Logger
	units   map[string]*unit
	skipped map[string]bool // what has been logged as being no file
}

// unit is one file as it was last read.
type unit struct {
	signature signature
	// stale says that the signature is too young to tell a later change: the
	// clock of the file system may not have ticked in between.
	stale bool
	// content is a hash of what it held; the zero value: not read yet.
	content [sha256.Size]byte
	set     pod.SourceSet
	// seen is nil while the file is settled.
	seen *sighting
	// missed is when the file was first not there; zero while it is.
	missed time.Time
}

// goneTime is how long a file must be missing before its pods are given up.
// Editors move the old file away before they write the new one, and git deletes
// it: believing that at once would restart the pods.
const goneTime = 100 * time.Millisecond

// signature changes when a file does.
type signature struct {
	dev, ino     uint64
	size         int64
	mtime, ctime int64 // nanoseconds
}

func signatureOf(info fs.FileInfo) signature {
	st := info.Sys().(*syscall.Stat_t)
	return signature{dev: uint64(st.Dev), ino: st.Ino, size: st.Size, mtime: st.Mtim.Nano(), ctime: st.Ctim.Nano()}
}

// findings is what a scan found.
type findings struct {
	set pod.SourceSet
	// changed says that the set differs from that of the scan before.
	changed bool
	// again is when to look again at files that were being written; 0: none.
	again time.Duration
	// err is set, and nothing else, when the source can't be read as a whole.
	err error
}

func newReader(path string, parser manifest.Parser, log *slog.Logger) *reader {
	return &reader{path: path, parser: parser, log: log, units: map[string]*unit{}, skipped: map[string]bool{}}
}

// scan looks at every file and reads those that changed: the dirty ones, or,
// with everything, all of them.
func (r *reader) scan(dirty map[string]bool, everything bool) findings {
	dir, names, err := r.list()
	if err != nil {
		return findings{err: err}
	}
	var found findings
	present := map[string]bool{}
	for _, name := range names {
		there, changed, again := r.look(dir, name, everything || dirty[name])
		if there {
			present[name] = true
			found.note(changed, again)
		}
	}
	for name, u := range r.units {
		if present[name] {
			u.missed = time.Time{}
		} else {
			found.note(r.miss(name, u, time.Now()))
		}
	}
	found.set = r.merge()
	return found
}

func (f *findings) note(changed bool, again time.Duration) {
	f.changed = f.changed || changed
	if again > 0 && (f.again == 0 || again < f.again) {
		f.again = again
	}
}

// miss gives a unit up once its file has been missing for long enough.
func (r *reader) miss(name string, u *unit, now time.Time) (changed bool, again time.Duration) {
	if u.missed.IsZero() {
		u.missed = now
	}
	if left := goneTime - now.Sub(u.missed); left > 0 {
		return false, left
	}
	delete(r.units, name)
	return true, 0
}

// merge is the sets of all files, in the order of their names. Of two pods with
// one name the sink decides: the file that had it keeps it. A file that is
// missing loses it at once to another, so that renaming one is no conflict.
func (r *reader) merge() pod.SourceSet {
	held := map[pod.Key]bool{}
	for _, u := range r.units {
		for _, s := range u.set.Pods {
			held[s.Key()] = held[s.Key()] || u.missed.IsZero()
		}
	}
	var all pod.SourceSet
	for _, name := range slices.Sorted(maps.Keys(r.units)) {
		u := r.units[name]
		for _, s := range u.set.Pods {
			if u.missed.IsZero() || !held[s.Key()] {
				all.Pods = append(all.Pods, s)
			}
		}
		all.Rejections = append(all.Rejections, u.set.Rejections...)
		all.Incomplete = append(all.Incomplete, u.set.Incomplete...)
	}
	return all
}

// list is the names of the files, or of the only one, and where they are.
func (r *reader) list() (dir string, names []string, err error) {
	info, err := os.Stat(r.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil, r.failure(pod.NotFound, errors.New("there is no such directory or file; make it, or correct --pod-manifest-path"))
	case err != nil:
		return "", nil, r.failure(pod.Unavailable, err)
	case info.Mode().IsRegular():
		return filepath.Dir(r.path), []string{filepath.Base(r.path)}, nil
	case !info.IsDir():
		return "", nil, r.failure(pod.Invalid, errors.New("this is neither a directory nor a file"))
	}
	entries, err := os.ReadDir(r.path)
	if err != nil {
		return "", nil, r.failure(pod.Unavailable, err)
	}
	for _, e := range entries {
		if !ignored(e.Name()) {
			names = append(names, e.Name())
		}
	}
	if len(names) > maxFiles {
		return "", nil, r.failure(pod.Invalid, fmt.Errorf("it has %d files, and may have %d; is it the right one?", len(names), maxFiles))
	}
	return r.path, names, nil
}

func (r *reader) failure(class pod.Class, err error) error {
	return &pod.Error{Class: class, Op: "read manifests in", Object: r.path, Err: err}
}

// look brings one unit up to date. there is false when there is no such file
// (any more), or when it is something else, which is never opened.
func (r *reader) look(dir, name string, force bool) (there, changed bool, again time.Duration) {
	file := filepath.Join(dir, name)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, linkErr := os.Lstat(file); linkErr != nil {
			return false, false, 0
		}
		err = errors.New("a symbolic link to nothing")
	}
	if err != nil {
		return true, r.refuse(name, pod.RejectedUnreadable, err.Error()), 0
	}
	if !info.Mode().IsRegular() {
		if !r.skipped[name] {
			r.skipped[name] = true
			r.log.Warn("not a regular file: ignored", "name", name, "mode", info.Mode().String())
		}
		return false, false, 0
	}
	delete(r.skipped, name)
	u, known := r.units[name]
	if known && u.seen == nil && !u.stale && !force && u.signature == signatureOf(info) {
		return true, false, 0
	}
	if limit := r.parser.Limits.UnitBytes; info.Size() > int64(limit) {
		return true, r.refuse(name, pod.RejectedSyntax, fmt.Sprintf("the file has %d bytes, and may have %d; split it up", info.Size(), limit)), 0
	}
	changed, again = r.read(name, file)
	return true, changed, again
}

// read reads a file that may have changed, or finds that it is being written.
func (r *reader) read(name, file string) (changed bool, again time.Duration) {
	// Not blocking, in case that something else has taken the file's place.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return r.refuse(name, pod.RejectedUnreadable, reason(err)), 0
	}
	defer f.Close()
	before, wait, err := r.sight(name, f)
	if err != nil {
		return r.refuse(name, pod.RejectedUnreadable, reason(err)), 0
	}
	if wait > 0 {
		return false, wait
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(r.parser.Limits.UnitBytes)+1))
	if err != nil {
		return r.refuse(name, pod.RejectedUnreadable, reason(err)), 0
	}
	after, err := f.Stat()
	if err != nil {
		return r.refuse(name, pod.RejectedUnreadable, reason(err)), 0
	}
	if now := signatureOf(after); now != before {
		// Somebody wrote meanwhile. They will be seen at the next look.
		u := r.units[name]
		u.seen.signature, u.seen.since = now, time.Now()
		return false, firstLook
	}
	return r.keep(name, before, data), 0
}

// sight tells whether an open file may be read now, and else how long to wait.
// Until then a unit keeps what it had; a new one is incomplete.
func (r *reader) sight(name string, f *os.File) (signature, time.Duration, error) {
	info, err := f.Stat()
	if err != nil {
		return signature{}, 0, err
	}
	if !info.Mode().IsRegular() {
		return signature{}, 0, errors.New("not a regular file")
	}
	u := r.units[name]
	if u == nil {
		u = &unit{set: pod.SourceSet{Incomplete: []string{unitName(name)}}}
		r.units[name] = u
	}
	now, sig := time.Now(), signatureOf(info)
	if u.seen == nil {
		u.seen = &sighting{signature: sig, since: now, unsettled: now}
	}
	if u.seen.signature != sig {
		u.seen.signature, u.seen.since = sig, now
	}
	return sig, settled(writersOf(f), *u.seen, now), nil
}

// granularity is the coarsest tick of a file system's clock (FAT's).
const granularity = 2 * time.Second

// keep takes the content of a settled file, and reports whether it is news.
func (r *reader) keep(name string, sig signature, data []byte) bool {
	u := r.units[name]
	u.seen, u.signature = nil, sig
	u.stale = time.Since(time.Unix(0, max(sig.mtime, sig.ctime))) < granularity
	content := sha256.Sum256(data)
	if u.content == content {
		return false
	}
	u.content = content
	u.set = r.parser.Parse(unitName(name), data, pod.SourceDirectory)
	r.logRefused(u.set.Rejections)
	return true
}

// refuse notes that a file can't be read, and reports whether that is news. The
// next scan tries again.
func (r *reader) refuse(name string, why pod.RejectionReason, message string) bool {
	content := sha256.Sum256([]byte("refused: " + message))
	if u := r.units[name]; u != nil && u.content == content {
		return false
	}
	set := manifest.Refuse(unitName(name), why, message)
	r.units[name] = &unit{stale: true, content: content, set: set}
	r.logRefused(set.Rejections)
	return true
}

func (r *reader) logRefused(rejections []pod.Rejection) {
	for _, refused := range rejections {
		first := refused.Errors[0]
		r.log.Warn("manifest refused", "place", refused.Place, "reason", refused.Reason,
			"field", first.Field, "line", first.Line, "error", first.Message, "errors", len(refused.Errors))
	}
}

// reason is an error without the path, which the rejection has already.
func reason(err error) string {
	var pathError *fs.PathError
	if errors.As(err, &pathError) {
		return pathError.Err.Error()
	}
	return err.Error()
}

// unitName is a file's name as text: names of files may be any bytes.
func unitName(name string) string { return strings.ToValidUTF8(name, "\uFFFD") }
