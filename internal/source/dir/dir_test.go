package dir_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/source/dir"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience bounds how long a test waits for what must happen.
const patience = 20 * time.Second

func pods(names ...string) string {
	var docs []string
	for _, name := range names {
		docs = append(docs, fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\nspec: {containers: [{name: c, image: busybox}]}\n", name))
	}
	return strings.Join(docs, "---\n")
}

// call is one call of the sink, in words.
type call struct {
	at   time.Time
	set  pod.SourceSet // all that the source has said so far
	told pod.SourceSet // what it said in this call
	err  error         // of SourceFailed
}

// String lists the units and names of pods, then rejections, then incomplete
// units: "a.yaml:x b.yaml:y !c.yaml:Syntax ?c.yaml".
func (c call) String() string {
	if c.err != nil {
		return string(pod.ClassOf(c.err))
	}
	var parts []string
	for _, s := range c.set.Pods {
		parts = append(parts, s.Unit+":"+strings.TrimSuffix(s.Pod.Name, "-node"))
	}
	for _, r := range c.set.Rejections {
		parts = append(parts, "!"+r.Unit+":"+string(r.Reason))
	}
	for _, u := range c.set.Incomplete {
		parts = append(parts, "?"+u)
	}
	return strings.Join(parts, " ")
}

// sink records what it is told, and fails when asked to. A set of some units is
// put into what the others were last said to be, as the store does.
type sink struct {
	calls chan call
	mu    sync.Mutex
	whole pod.SourceSet
	fail  int // so many calls yet
}

func (s *sink) take(c call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls <- c
	if s.fail > 0 {
		s.fail--
		return &pod.Error{Class: pod.Unavailable, Op: "store", Err: errors.New("disk full")}
	}
	return nil
}

func (s *sink) SyncSource(_ context.Context, _ pod.Source, set pod.SourceSet) (pod.SyncResult, error) {
	whole := set
	if set.Units != nil {
		whole = merged(s.whole, set)
	}
	err := s.take(call{at: time.Now(), set: whole, told: set})
	if err == nil {
		s.whole = whole
	}
	return pod.SyncResult{}, err
}

// merged is a set in which what another one says of some units is replaced.
func merged(whole, some pod.SourceSet) pod.SourceSet {
	var all pod.SourceSet
	for _, set := range []pod.SourceSet{whole, some} {
		said := func(unit string) bool { return set.Units == nil && some.Covers(unit) }
		for _, p := range set.Pods {
			if !said(p.Unit) {
				all.Pods = append(all.Pods, p)
			}
		}
		for _, r := range set.Rejections {
			if !said(r.Unit) {
				all.Rejections = append(all.Rejections, r)
			}
		}
		for _, u := range set.Incomplete {
			if !said(u) {
				all.Incomplete = append(all.Incomplete, u)
			}
		}
	}
	slices.SortStableFunc(all.Pods, func(a, b pod.Submission) int { return strings.Compare(a.Unit, b.Unit) })
	slices.SortStableFunc(all.Rejections, func(a, b pod.Rejection) int { return strings.Compare(a.Unit, b.Unit) })
	slices.Sort(all.Incomplete)
	return all
}

func (s *sink) SourceFailed(_ context.Context, _ pod.Source, reason error) error {
	return s.take(call{at: time.Now(), err: reason})
}

// next waits for the call that says what is wanted, and passes over those
// before it, which must not be refused ones: each state on the way is a true one.
func (s *sink) next(t *testing.T, want string) call {
	t.Helper()
	var seen []string
	timeout := time.After(patience)
	for {
		select {
		case c := <-s.calls:
			if c.String() == want {
				return c
			}
			seen = append(seen, c.String())
		case <-timeout:
			t.Fatalf("no call %q, but %q", want, seen)
		}
	}
}

// exactly waits for the next call, which must be the one wanted.
func (s *sink) exactly(t *testing.T, want string) call {
	t.Helper()
	select {
	case c := <-s.calls:
		if c.String() != want {
			t.Fatalf("call %q, want %q", c, want)
		}
		return c
	case <-time.After(patience):
		t.Fatalf("no call, want %q", want)
	}
	panic("unreachable")
}

// start follows path with checks so rare that only reports of changes count,
// unless a frequency is given.
func start(t *testing.T, path string, every ...time.Duration) (*sink, *dir.Directory) {
	t.Helper()
	s := &sink{calls: make(chan call, 1000)}
	return s, startWith(t, s, path, every...)
}

func startWith(t *testing.T, s *sink, path string, every ...time.Duration) *dir.Directory {
	t.Helper()
	frequency := time.Hour
	if len(every) > 0 {
		frequency = every[0]
	}
	d := dir.New(dir.Options{
		Path: path, Parser: manifest.Parser{NodeName: "node"}, Sink: s,
		CheckFrequency: frequency, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- d.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return d
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// must fails the test for an error of setting things up.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestFollowsADirectory(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	write(t, at("b.yaml"), pods("b"))
	write(t, at("a.json"), `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"busybox"}]}}`)
	s, d := start(t, root)
	s.exactly(t, "a.json:a b.yaml:b")
	if src := d.Source(); src.ID != "directory:"+root || src.Kind != pod.SourceDirectory || src.Location != root {
		t.Errorf("source %+v", src)
	}

	write(t, at("c.yaml"), pods("c1", "c2"))
	s.next(t, "a.json:a b.yaml:b c.yaml:c1 c.yaml:c2")
	write(t, at("c.yaml"), pods("c1"))
	s.next(t, "a.json:a b.yaml:b c.yaml:c1")
	must(t, os.Remove(at("b.yaml")))
	s.exactly(t, "a.json:a c.yaml:c1")

	// As most editors and tools save: written beside it and renamed.
	write(t, at(".c.yaml.tmp"), pods("c3"))
	must(t, os.Rename(at(".c.yaml.tmp"), at("c.yaml")))
	s.exactly(t, "a.json:a c.yaml:c3")
}

func TestReactsAtOnce(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "p.yaml"), pods("p"))
	s, _ := start(t, root)
	s.exactly(t, "p.yaml:p")
	var delays []time.Duration
	for i := range 20 {
		name := fmt.Sprintf("p%d", i)
		write(t, filepath.Join(root, "p.yaml"), pods(name))
		written := time.Now()
		delays = append(delays, s.next(t, "p.yaml:"+name).at.Sub(written))
	}
	slices.Sort(delays)
	t.Logf("median %v, slowest %v", delays[10], delays[19])
	if delays[10] > 50*time.Millisecond {
		t.Errorf("the median delay is %v", delays[10])
	}
}

func TestWaitsForTheWriter(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	write(t, at("a.yaml"), pods("old"))
	s, _ := start(t, root)
	s.exactly(t, "a.yaml:old")

	// Half of a text can be a manifest by itself.
	text := pods("a1", "a2")
	half := strings.Index(text, "---")
	existing, err := os.OpenFile(at("a.yaml"), os.O_WRONLY|os.O_TRUNC, 0)
	must(t, err)
	fresh, err := os.Create(at("b.yaml"))
	must(t, err)
	for _, f := range []*os.File{existing, fresh} {
		_, err = f.WriteString(text[:half])
		must(t, err)
	}
	// Another file is not held up, the one being written keeps what it had, and
	// a new one loses no pods that an earlier run of the agent knew it to have.
	write(t, at("c.yaml"), pods("c"))
	s.exactly(t, "a.yaml:old c.yaml:c")

	for _, f := range []*os.File{existing, fresh} {
		_, err = f.WriteString(text[half:])
		must(t, err)
	}
	must(t, existing.Close())
	s.exactly(t, "a.yaml:a1 a.yaml:a2 c.yaml:c")
	must(t, fresh.Close())
	s.exactly(t, "a.yaml:a1 a.yaml:a2 b.yaml:a1 b.yaml:a2 c.yaml:c")
}

func TestBrokenFileIsIncomplete(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	write(t, at("a.yaml"), pods("a"))
	write(t, at("b.yaml"), pods("b"))
	s, _ := start(t, root)
	s.exactly(t, "a.yaml:a b.yaml:b")
	write(t, at("a.yaml"), "kind: [")
	s.next(t, "b.yaml:b !a.yaml:Syntax ?a.yaml")
	write(t, at("a.yaml"), pods("a")+"---\nkind: ConfigMap\n")
	s.next(t, "a.yaml:a b.yaml:b !a.yaml:Invalid ?a.yaml")
	must(t, os.Truncate(at("a.yaml"), 0))
	s.next(t, "b.yaml:b !a.yaml:Syntax ?a.yaml")
	write(t, at("a.yaml"), "# nothing wanted\n")
	s.next(t, "b.yaml:b")
}

func TestUnreadableFiles(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	must(t, os.Symlink("nowhere", at("dangling.yaml")))
	must(t, os.Symlink("loop.yaml", at("loop.yaml")))
	f, err := os.Create(at("large.yaml"))
	must(t, err)
	must(t, f.Truncate(1<<40)) // sparse: reading it would take for ever
	must(t, f.Close())
	s, _ := start(t, root)
	s.exactly(t, "!dangling.yaml:Unreadable !large.yaml:Syntax !loop.yaml:Unreadable ?dangling.yaml ?large.yaml ?loop.yaml")
	write(t, at("nowhere"), pods("a")) // the target of the link
	s.next(t, "dangling.yaml:a nowhere:a !large.yaml:Syntax !loop.yaml:Unreadable ?large.yaml ?loop.yaml")
}

func TestWhatIsNoManifestIsNeverOpened(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	must(t, syscall.Mkfifo(at("fifo.yaml"), 0o600))
	must(t, os.Mkdir(at("sub"), 0o700))
	write(t, at("sub/inner.yaml"), pods("inner"))
	must(t, os.Symlink("sub", at("link")))
	must(t, os.Symlink("/dev/zero", at("zero.yaml")))
	for _, name := range []string{".hidden.yaml", "a.yaml~", ".a.yaml.swp", "#a.yaml#", "4913", "a.yaml.bak", "a.yaml.orig", "a.tmp", "a.yaml.dpkg-new", ".#a.yaml"} {
		write(t, at(name), pods("wrong"))
	}
	write(t, at("no-extension"), pods("right"))
	s, _ := start(t, root)
	s.exactly(t, "no-extension:right")
	for _, name := range []string{"b.yaml~", ".b.yaml.swp", "4914.tmp"} {
		write(t, at(name), pods("wrong"))
	}
	write(t, at("z.yaml"), pods("z"))
	s.next(t, "no-extension:right z.yaml:z")
}

// Editors move the old file away before they write the new one.
func TestFileThatIsGoneForAMoment(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	write(t, at("a.yaml"), pods("a"))
	write(t, at("b.yaml"), pods("b"))
	s, _ := start(t, root)
	s.exactly(t, "a.yaml:a b.yaml:b")
	must(t, os.Rename(at("a.yaml"), at("a.yaml~")))
	write(t, at("b.yaml"), pods("b2"))
	c := s.next(t, "a.yaml:a b.yaml:b2")
	write(t, at("a.yaml"), pods("a2"))
	if time.Since(c.at) < 50*time.Millisecond { // else this host was asleep
		s.exactly(t, "a.yaml:a2 b.yaml:b2")
	} else {
		s.next(t, "a.yaml:a2 b.yaml:b2")
	}
}

func TestRenamedFileTakesItsPodsAlong(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	write(t, at("b.yaml"), pods("x"))
	s, _ := start(t, root)
	s.exactly(t, "b.yaml:x")
	must(t, os.Rename(at("b.yaml"), at("a.yaml")))
	s.exactly(t, "a.yaml:x")
}

func TestPodsOfOneNameInTwoFiles(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "b.yaml"), pods("x"))
	write(t, filepath.Join(root, "a.yaml"), pods("x", "w"))
	s, _ := start(t, root)
	s.exactly(t, "a.yaml:x a.yaml:w b.yaml:x") // the sink decides
}

// Kubernetes makes files of a ConfigMap this way, and so do others.
func TestDirectoryOfLinks(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	for _, version := range []string{"..v1", "..v2"} {
		must(t, os.Mkdir(at(version), 0o700))
		write(t, filepath.Join(at(version), "web.yaml"), pods("web"+strings.TrimPrefix(version, "..")))
	}
	must(t, os.Symlink("..v1", at("..data")))
	must(t, os.Symlink("..data/web.yaml", at("web.yaml")))
	s, _ := start(t, root)
	s.exactly(t, "web.yaml:webv1")
	must(t, os.Symlink("..v2", at("..data_tmp")))
	must(t, os.Rename(at("..data_tmp"), at("..data")))
	s.exactly(t, "web.yaml:webv2")
}

func TestLinkToADirectoryIsExchanged(t *testing.T) {
	parent := t.TempDir()
	for _, version := range []string{"v1", "v2"} {
		must(t, os.Mkdir(filepath.Join(parent, version), 0o700))
		write(t, filepath.Join(parent, version, "a.yaml"), pods(version))
	}
	current := filepath.Join(parent, "current")
	must(t, os.Symlink("v1", current))
	s, _ := start(t, current)
	s.exactly(t, "a.yaml:v1")
	must(t, os.Symlink("v2", current+".next"))
	must(t, os.Rename(current+".next", current))
	s.exactly(t, "a.yaml:v2")
	write(t, filepath.Join(parent, "v2", "b.yaml"), pods("b"))
	s.next(t, "a.yaml:v2 b.yaml:b")
}

func TestPathThatIsNeither(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	must(t, syscall.Mkfifo(path, 0o600))
	s, _ := start(t, path)
	s.exactly(t, "invalid")
}

func TestDirectoryWithTooManyFiles(t *testing.T) {
	root := t.TempDir()
	for i := range 2001 {
		write(t, filepath.Join(root, fmt.Sprint(i)), "")
	}
	s, _ := start(t, root)
	s.exactly(t, "invalid")
}

func TestSingleFile(t *testing.T) {
	parent := t.TempDir()
	path := filepath.Join(parent, "pods.yaml")
	write(t, path, pods("a"))
	s, _ := start(t, path)
	s.exactly(t, "pods.yaml:a")
	write(t, filepath.Join(parent, "other.yaml"), pods("other"))
	write(t, path+".tmp", pods("b"))
	must(t, os.Rename(path+".tmp", path))
	s.exactly(t, "pods.yaml:b")
	must(t, os.Remove(path))
	s.exactly(t, "not found")
	write(t, path, pods("b"))
	s.next(t, "pods.yaml:b")
}

func TestSinkThatFails(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a.yaml"), pods("a"))
	s := &sink{calls: make(chan call, 1000), fail: 2}
	startWith(t, s, root)
	for range 3 {
		s.exactly(t, "a.yaml:a")
	}

	missing := &sink{calls: make(chan call, 1000), fail: 1}
	startWith(t, missing, filepath.Join(root, "missing"))
	for range 2 {
		missing.exactly(t, "not found")
	}
}

func TestNothingIsSentTwice(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	write(t, at("a.yaml"), pods("a"))
	s, d := start(t, root, 5*time.Millisecond)
	s.exactly(t, "a.yaml:a")
	now := time.Now()
	for i := range 10 { // touched, and written with what it holds
		must(t, os.Chtimes(at("a.yaml"), now, now.Add(time.Duration(i)*time.Second)))
		write(t, at("a.yaml.new"), pods("a"))
		must(t, os.Rename(at("a.yaml.new"), at("a.yaml")))
	}
	write(t, at("b.yaml"), pods("b"))
	s.exactly(t, "a.yaml:a b.yaml:b")
	d.Resync()
	s.exactly(t, "a.yaml:a b.yaml:b")
}

// Links lead to files that are not watched: the recheck finds their changes.
func TestRecheck(t *testing.T) {
	root, elsewhere := t.TempDir(), t.TempDir()
	target := filepath.Join(elsewhere, "a.yaml")
	write(t, target, pods("a"))
	must(t, os.Symlink(target, filepath.Join(root, "a.yaml")))
	s, _ := start(t, root, 20*time.Millisecond)
	s.exactly(t, "a.yaml:a")
	write(t, target, pods("b"))
	s.next(t, "a.yaml:b")
}

// Taking and giving back leases neither stops writers nor ends the process by
// the signal that announces a writer.
func TestLeasesLeaveWritersAlone(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "a.yaml")
	write(t, path, pods("p"))
	s, _ := start(t, root, time.Millisecond)
	s.exactly(t, "a.yaml:p")
	var slowest time.Duration
	for i := range 500 {
		begin := time.Now()
		write(t, path, pods(fmt.Sprintf("p%d", i)))
		slowest = max(slowest, time.Since(begin))
	}
	s.next(t, "a.yaml:p499")
	if slowest > 5*time.Second {
		t.Errorf("a writer waited %v", slowest)
	}
}
