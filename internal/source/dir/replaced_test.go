package dir_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A directory that comes back is filled file by file: what its predecessor had
// stays until nothing has changed in it for a while.
func TestDirectoryComesAndGoes(t *testing.T) {
	parent := t.TempDir()
	root := filepath.Join(parent, "etc", "manifests")
	at := func(name string) string { return filepath.Join(root, name) }
	s, _ := start(t, root)
	if failed := s.exactly(t, "not found"); !strings.Contains(failed.err.Error(), root) {
		t.Errorf("error %v", failed.err)
	}
	// Of one that was missing at the start, only what is in it is spoken of.
	must(t, os.MkdirAll(root, 0o700))
	s.next(t, "unavailable")
	write(t, at("a.yaml"), pods("a"))
	if c := s.next(t, "a.yaml:a"); c.told.Units == nil {
		t.Error("a directory that is being filled is taken for whole")
	}
	s.next(t, "unavailable")

	write(t, at("b.yaml"), pods("b"))
	s.next(t, "a.yaml:a b.yaml:b")
	for _, away := range []string{"first", "second"} {
		must(t, os.Rename(root, filepath.Join(parent, away)))
		s.next(t, "not found")
		must(t, os.Mkdir(root, 0o700))
		failed := s.next(t, "unavailable")
		if !strings.Contains(failed.err.Error(), "a.yaml is missing") {
			t.Errorf("error %v", failed.err)
		}
		write(t, at("a.yaml"), pods("a"))
		s.next(t, "unavailable")
		write(t, at("a.yaml"), pods("a2"))
		s.next(t, "a.yaml:a2 b.yaml:b")
		write(t, at("a.yaml"), pods("a"))
		s.next(t, "a.yaml:a b.yaml:b")
	}
	// A file that was seen in the new directory goes as any other does.
	must(t, os.Remove(at("a.yaml")))
	s.next(t, "b.yaml:b")

	// Replaced as a whole, and known to be: what was there stays.
	fresh := filepath.Join(parent, "etc", "fresh")
	must(t, os.Mkdir(fresh, 0o700))
	write(t, filepath.Join(fresh, "c.yaml"), pods("c"))
	must(t, os.Rename(root, filepath.Join(parent, "etc", "old")))
	must(t, os.Rename(fresh, root))
	s.next(t, "b.yaml:b c.yaml:c")
}

// What nothing brings back is gone in the end.
func TestReplacedDirectoryIsBelieved(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, root string){
		"made anew": func(t *testing.T, root string) {
			must(t, os.RemoveAll(root))
			must(t, os.Mkdir(root, 0o700))
			write(t, filepath.Join(root, "b.yaml"), pods("b"))
		},
		"exchanged": func(t *testing.T, root string) {
			must(t, os.Mkdir(root+".new", 0o700))
			write(t, filepath.Join(root+".new", "b.yaml"), pods("b"))
			must(t, os.Rename(root, root+".old"))
			must(t, os.Rename(root+".new", root))
		},
	} {
		t.Run(name, func(t *testing.T) {
			root := filepath.Join(t.TempDir(), "manifests")
			must(t, os.Mkdir(root, 0o700))
			write(t, filepath.Join(root, "a.yaml"), pods("a"))
			s, _ := start(t, root, 200*time.Millisecond) // three of these
			s.exactly(t, "a.yaml:a")
			replace(t, root)
			kept := s.next(t, "a.yaml:a b.yaml:b")
			if c := s.next(t, "b.yaml:b"); c.at.Sub(kept.at) < 500*time.Millisecond {
				t.Errorf("believed after %v", c.at.Sub(kept.at))
			} else if len(c.told.Gone) != 1 || c.told.Gone[0] != "a.yaml" {
				t.Errorf("gone: %q", c.told.Gone)
			}
		})
	}
}

// A directory that is empty when the agent starts, as where a disk is to be
// mounted, is not taken for the wish to have no pods until it has stayed so.
func TestEmptyDirectoryAtTheStart(t *testing.T) {
	s, _ := start(t, t.TempDir(), 100*time.Millisecond)
	s.exactly(t, "unavailable")
	if c := s.next(t, ""); c.told.Units != nil {
		t.Errorf("it says no more than %q", c.told.Units)
	}
}

func TestUnitsThatAreTold(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, name) }
	write(t, at("a.yaml"), pods("a"))
	write(t, at("b.yaml"), pods("b"))
	s, d := start(t, root)
	told := func(want, units string) {
		t.Helper()
		c := s.exactly(t, want)
		if got := strings.Join(c.told.Units, " "); got != units {
			t.Errorf("%s: told of units %q, want %q", want, got, units)
		}
	}
	told("a.yaml:a b.yaml:b", "")
	must(t, os.Rename(written(t, root, "a2"), at("a.yaml")))
	told("a.yaml:a2 b.yaml:b", "a.yaml")
	must(t, os.Rename(written(t, root, "b", "b2"), at("b.yaml")))
	told("a.yaml:a2 b.yaml:b b.yaml:b2", "b.yaml")
	must(t, os.Remove(at("a.yaml")))
	told("b.yaml:b b.yaml:b2", "a.yaml")
	// Two files that want one pod, and one of them no more: all is told.
	must(t, os.Rename(written(t, root, "b2"), at("c.yaml")))
	told("b.yaml:b b.yaml:b2 c.yaml:b2", "")
	must(t, os.Rename(written(t, root, "b"), at("b.yaml")))
	told("b.yaml:b c.yaml:b2", "")
	must(t, os.Rename(written(t, root, "b3"), at("b.yaml")))
	told("b.yaml:b3 c.yaml:b2", "b.yaml")
	must(t, os.Rename(at("c.yaml"), at("d.yaml")))
	told("b.yaml:b3 d.yaml:b2", "")
	d.Resync()
	for c := s.exactly(t, "b.yaml:b3 d.yaml:b2"); c.told.Units != nil; {
		c = s.exactly(t, "b.yaml:b3 d.yaml:b2") // of c.yaml, given up meanwhile
	}
}

// written makes a file that the source does not see.
func written(t *testing.T, root string, names ...string) string {
	t.Helper()
	path := filepath.Join(root, ".draft")
	write(t, path, pods(names...))
	return path
}

// From a file to the sink no name is looked up: a dead name server holds nothing
// up (kubelet's sync stalls 5 s each time that its node's name can't be resolved).
func TestNothingIsLookedUp(t *testing.T) {
	asked := make(chan string, 100)
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(_ context.Context, _, address string) (net.Conn, error) {
		asked <- address
		return nil, errors.New("no name server")
	}}
	t.Cleanup(func() { net.DefaultResolver = before })
	if _, err := net.DefaultResolver.LookupHost(t.Context(), "name.invalid"); err == nil || len(asked) == 0 {
		t.Fatalf("a look-up is not noticed: %v", err)
	}
	for len(asked) > 0 {
		<-asked
	}
	root := t.TempDir()
	write(t, filepath.Join(root, "a.yaml"), strings.Replace(pods("a"), "busybox}", "registry.example.com:5000/a/b, ports: [{containerPort: 80, hostPort: 80, hostIP: 127.0.0.1}]}", 1))
	s, _ := start(t, root)
	s.exactly(t, "a.yaml:a")
	write(t, filepath.Join(root, "a.yaml"), strings.Replace(pods("b"), "busybox}", "b, ports: [{containerPort: 80, hostIP: localhost}]}", 1))
	s.next(t, "!a.yaml:Invalid ?a.yaml")
	if len(asked) > 0 {
		t.Errorf("%s was asked for a name", <-asked)
	}
}

// What the sink did not take is told again, with all the rest.
func TestLostDeliveryIsMadeUpFor(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "a.yaml"), pods("a"))
	write(t, filepath.Join(root, "b.yaml"), pods("b"))
	s, _ := start(t, root)
	s.exactly(t, "a.yaml:a b.yaml:b")
	s.mu.Lock()
	s.fail = 1
	s.mu.Unlock()
	must(t, os.Rename(written(t, root, "a2"), filepath.Join(root, "a.yaml")))
	if c := s.exactly(t, "a.yaml:a2 b.yaml:b"); c.told.Units == nil {
		t.Errorf("first told: %q", c.told.Units)
	}
	if c := s.exactly(t, "a.yaml:a2 b.yaml:b"); c.told.Units != nil {
		t.Errorf("made up for with %q", c.told.Units)
	}
}

// A name that is no manifest's is refused as kubelet does, with what to do.
func TestFileThatIsNoManifestSaysWhatToDo(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "README.md"), "Manifests of this machine.\n")
	s, _ := start(t, root)
	c := s.exactly(t, "!README.md:Syntax ?README.md")
	if said := c.set.Rejections[0].Errors[0].Message; !strings.Contains(said, "begin with a dot") {
		t.Errorf("it says %q", said)
	}
	must(t, os.Rename(filepath.Join(root, "README.md"), filepath.Join(root, ".README.md")))
	s.exactly(t, "")
}
