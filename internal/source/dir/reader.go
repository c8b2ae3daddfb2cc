package dir

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

// reader reads the files, and remembers what they held.
type reader struct {
	path    string
	parser  manifest.Parser
	log     *slog.Logger
	now     func() time.Time
	units   map[string]*unit
	holders map[pod.Key]int // how many units hold a pod
	// restless are the units to look at again before anything is reported.
	restless map[string]bool
	skipped  map[string]bool // what has been logged as being no file
	root     root
	// vanished is when a file was last found missing.
	vanished time.Time
	gone     []string // names of units given up since the sink took all news
	found    findings // by the scan in progress
}

// unit is one file as it was last read.
type unit struct {
	signature signature
	// stale says that the signature is too young to tell a later change: the
	// clock of the file system may not have ticked in between.
	stale bool
	// refused says that the file could not be read: it is tried again.
	refused bool
	// content is a hash of what it held; the zero value: not read yet.
	content [sha256.Size]byte
	set     pod.SourceSet
	// keys are the pods that it holds, those that it held before it was broken
	// included.
	keys []pod.Key
	// seen is nil while the file is settled.
	seen *sighting
	// absence is nil while the file is there.
	absence *absence
	// doubtful says that the file has not been seen since the directory was
	// replaced.
	doubtful bool
}

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

// look is what a scan is to look at.
type look struct {
	// listing asks for every file of the directory; without it only the dirty
	// and the restless ones are looked at, however many others there are.
	listing bool
	// everything asks for reading files that seem to be the same.
	everything bool
	// replaced says that the directory itself came or went.
	replaced bool
	// dirty are the files that were reported.
	dirty map[string]report
}

// report is the last thing that was reported of a file.
type report int

const (
	touched  report = iota + 1
	unlinked        // as opposed to moved away
)

// findings is what a scan found.
type findings struct {
	// changed are the names of files whose pods or rejections are others than at
	// the scan before.
	changed []string
	// whole says that the news can't be told by the changed files alone.
	whole bool
	// again is when to look again at files that are not settled; 0: none.
	again time.Duration
	// doubt is set while files of a directory that was replaced are missed.
	doubt error
	// err is set, and nothing else, when the source can't be read as a whole.
	err error
}

func (f *findings) news() bool { return f.whole || len(f.changed) > 0 }

func (f *findings) lookAgain(in time.Duration) {
	if in > 0 && (f.again == 0 || in < f.again) {
		f.again = in
	}
}

func newReader(path string, parser manifest.Parser, confirmation time.Duration, log *slog.Logger) *reader {
	return &reader{
		path: path, parser: parser, log: log, now: time.Now,
		units: map[string]*unit{}, holders: map[pod.Key]int{}, restless: map[string]bool{}, skipped: map[string]bool{},
		root: root{confirmation: confirmation},
	}
}

// scan looks at files and reads those that changed.
func (r *reader) scan(l look) findings {
	r.found = findings{}
	at, err := r.locate()
	if l.replaced || pod.ClassOf(err) == pod.NotFound {
		r.root.lost = true
	}
	if err != nil {
		return findings{err: err}
	}
	if l.listing || r.root.recognise(at.id) || at.file != "" {
		err = r.scanAll(at, l)
	} else {
		r.scanSome(at, l)
	}
	if err != nil {
		return findings{err: err}
	}
	r.settleDoubt()
	return r.found
}

func (r *reader) scanAll(at location, l look) error {
	names, err := r.list(at)
	if err != nil {
		return err
	}
	if r.root.enter(at, len(names) > 0, r.now()) {
		for name, u := range r.units {
			u.doubtful = true
			r.restless[name] = true
		}
	}
	present := map[string]bool{}
	for _, name := range names {
		if r.look(at.dir, name, l.everything || l.dirty[name] != 0) {
			present[name] = true
		}
	}
	for name := range r.units {
		if !present[name] {
			r.miss(name, l.dirty[name] == unlinked)
		}
	}
	return nil
}

func (r *reader) scanSome(at location, l look) {
	names := make(map[string]bool, len(l.dirty)+len(r.restless))
	for name := range l.dirty {
		names[name] = true
	}
	for name := range r.restless {
		names[name] = true
	}
	for name := range names {
		if !r.look(at.dir, name, l.dirty[name] != 0) && r.units[name] != nil {
			r.miss(name, l.dirty[name] == unlinked)
		}
	}
}

// look brings one unit up to date. It reports false when there is no such file
// (any more), or when it is something else, which is never opened.
func (r *reader) look(dir, name string, force bool) (there bool) {
	file := filepath.Join(dir, name)
	info, err := os.Stat(file)
	if errors.Is(err, fs.ErrNotExist) {
		if _, linkErr := os.Lstat(file); linkErr != nil {
			delete(r.skipped, name)
			return false
		}
		err = errors.New("a symbolic link to nothing")
	}
	if err != nil {
		r.refuse(name, pod.RejectedUnreadable, reason(err))
		return true
	}
	if !info.Mode().IsRegular() {
		if !r.skipped[name] {
			r.skipped[name] = true
			r.log.Warn("not a regular file: ignored", "name", name, "mode", info.Mode().String())
		}
		return false
	}
	delete(r.skipped, name)
	u, known := r.units[name]
	if known {
		r.sawAgain(name, u)
	}
	if known && u.seen == nil && !u.stale && !force && u.signature == signatureOf(info) {
		return true
	}
	if limit := r.parser.Limits.UnitBytes; info.Size() > int64(limit) {
		// Its size is not told: it would be news whenever the file grows.
		r.refuse(name, pod.RejectedSyntax, fmt.Sprintf("the file is larger than %d bytes; split it up", limit))
		return true
	}
	r.found.lookAgain(r.read(name, file))
	return true
}

// sawAgain ends the absence of a file.
func (r *reader) sawAgain(name string, u *unit) {
	u.absence, u.doubtful = nil, false
	if u.seen == nil && !u.refused {
		delete(r.restless, name)
	}
}

// read reads a file that may have changed, or finds that it is being written and
// says when to look again.
func (r *reader) read(name, file string) (again time.Duration) {
	// Not blocking, in case that something else has taken the file's place.
	f, err := os.OpenFile(file, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		r.refuse(name, pod.RejectedUnreadable, reason(err))
		return 0
	}
	defer f.Close()
	before, wait, err := r.sight(name, f)
	if err != nil {
		r.refuse(name, pod.RejectedUnreadable, reason(err))
		return 0
	}
	if wait > 0 {
		return wait
	}
	data, err := io.ReadAll(io.LimitReader(f, int64(r.parser.Limits.UnitBytes)+1))
	if err != nil {
		r.refuse(name, pod.RejectedUnreadable, reason(err))
		return 0
	}
	after, err := f.Stat()
	if err != nil {
		r.refuse(name, pod.RejectedUnreadable, reason(err))
		return 0
	}
	if now := signatureOf(after); now != before {
		// Somebody wrote meanwhile. They will be seen at the next look.
		u := r.units[name]
		u.seen.signature, u.seen.since = now, r.now()
		return firstLook
	}
	r.keep(name, before, data)
	return 0
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
		r.root.quiet = r.now()
	}
	now, sig := r.now(), signatureOf(info)
	if u.seen == nil {
		u.seen = &sighting{signature: sig, since: now, unsettled: now}
	}
	if u.seen.signature != sig {
		u.seen.signature, u.seen.since = sig, now
	}
	r.restless[name] = true
	return sig, settled(writersOf(f), *u.seen, now), nil
}

// granularity is the coarsest tick of a file system's clock (FAT's).
const granularity = 2 * time.Second

// keep takes the content of a settled file.
func (r *reader) keep(name string, sig signature, data []byte) {
	u := r.units[name]
	u.seen, u.refused, u.signature = nil, false, sig
	delete(r.restless, name)
	u.stale = r.now().Sub(time.Unix(0, max(sig.mtime, sig.ctime))) < granularity
	content := sha256.Sum256(data)
	if u.content == content {
		return
	}
	u.content = content
	set := r.parser.Parse(unitName(name), data, pod.SourceDirectory)
	adviseOnName(name, set.Rejections)
	r.replace(name, set)
}

// refuse notes that a file can't be read. The next scan tries again.
func (r *reader) refuse(name string, why pod.RejectionReason, message string) {
	content := sha256.Sum256([]byte("refused: " + message))
	u := r.units[name]
	if u == nil {
		u = &unit{}
		r.units[name] = u
	}
	u.absence, u.doubtful, u.seen, u.stale, u.refused = nil, false, nil, true, true
	r.restless[name] = true
	if u.content == content {
		return
	}
	u.content = content
	r.replace(name, manifest.Refuse(unitName(name), why, message))
}

// replace gives a unit what its file holds now.
func (r *reader) replace(name string, set pod.SourceSet) {
	u := r.units[name]
	before := u.set.Rejections
	r.hold(name, u, set)
	u.set = set
	r.logRefused(slices.DeleteFunc(slices.Clone(set.Rejections), func(refused pod.Rejection) bool {
		return slices.ContainsFunc(before, func(b pod.Rejection) bool { return reflect.DeepEqual(b, refused) })
	}))
}

func (r *reader) logRefused(rejections []pod.Rejection) {
	for _, refused := range rejections {
		first := refused.Errors[0]
		r.log.Warn("manifest refused", "place", refused.Place, "reason", refused.Reason,
			"field", first.Field, "line", first.Line, "error", first.Message, "errors", len(refused.Errors))
	}
}

// adviseOnName says what to do about a file that is no manifest by its name:
// kubelet reads every file, and so does this source.
func adviseOnName(name string, rejections []pod.Rejection) {
	switch strings.ToLower(filepath.Ext(name)) {
	case ".yaml", ".yml", ".json":
		return
	}
	for i, refused := range rejections {
		if refused.Reason == pod.RejectedSyntax {
			rejections[i].Errors[0].Message += "; every file here is read as a manifest: if this is none, move it away or let its name begin with a dot"
		}
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
