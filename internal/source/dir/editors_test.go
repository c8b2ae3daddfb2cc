package dir_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// workspace is a directory of manifests with a.yaml, b.yaml and what the tools
// need besides.
type workspace struct{ t *testing.T }

func (w workspace) run(dir, command string, args ...string) {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), command, args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com", "GIT_CONFIG_GLOBAL=/dev/null")
	if out, err := cmd.CombinedOutput(); err != nil {
		w.t.Fatalf("%s %q: %v\n%s", command, args, err, out)
	}
}

// edited is a.yaml with another image.
func edited(version string) string {
	return strings.Replace(pods("a"), "busybox", "busybox:"+version, 1)
}

// waysToSave leave edited("2") in a.yaml, as programs do it.
var waysToSave = map[string]func(w workspace, root, a string){
	"written in place (vim with backupcopy=yes, nano)": func(w workspace, _, a string) {
		write(w.t, a, edited("2"))
	},
	"the old one moved away first (vim)": func(w workspace, root, a string) {
		write(w.t, filepath.Join(root, "4913"), "")
		must(w.t, os.Remove(filepath.Join(root, "4913")))
		must(w.t, os.Rename(a, a+"~"))
		write(w.t, a, edited("2"))
		must(w.t, os.Remove(a+"~"))
	},
	"the old one kept as a backup (Emacs)": func(w workspace, root, a string) {
		must(w.t, os.Symlink("user@host.1234:1", filepath.Join(root, ".#a.yaml")))
		write(w.t, filepath.Join(root, "#a.yaml#"), edited("2"))
		must(w.t, os.Rename(a, a+"~"))
		write(w.t, a, edited("2"))
		must(w.t, os.Remove(filepath.Join(root, "#a.yaml#")))
		must(w.t, os.Remove(filepath.Join(root, ".#a.yaml")))
	},
	"exchanged (JetBrains)": func(w workspace, _, a string) {
		write(w.t, a+"___jb_tmp___", edited("2"))
		must(w.t, os.Rename(a, a+"___jb_old___"))
		must(w.t, os.Rename(a+"___jb_tmp___", a))
		must(w.t, os.Remove(a+"___jb_old___"))
	},
	"renamed over it (gedit, Ansible)": func(w workspace, root, a string) {
		write(w.t, filepath.Join(root, ".goutputstream-1234"), edited("2"))
		must(w.t, os.Rename(filepath.Join(root, ".goutputstream-1234"), a))
	},
	"rsync": func(w workspace, root, a string) {
		write(w.t, filepath.Join(root, ".a.yaml.Xy12ab"), edited("2"))
		must(w.t, os.Chtimes(filepath.Join(root, ".a.yaml.Xy12ab"), time.Now(), time.Now().Add(-time.Hour)))
		must(w.t, os.Rename(filepath.Join(root, ".a.yaml.Xy12ab"), a))
	},
	"sed -i": func(w workspace, root, _ string) { w.run(root, "sed", "-i", "s/busybox/busybox:2/", "a.yaml") },
	"cp":     func(w workspace, root, _ string) { w.run(root, "cp", "../new.yaml", "a.yaml") },
	"cp --remove-destination": func(w workspace, root, _ string) {
		w.run(root, "cp", "--remove-destination", "../new.yaml", "a.yaml")
	},
	"install":      func(w workspace, root, _ string) { w.run(root, "install", "-m", "644", "../new.yaml", "a.yaml") },
	"tar":          func(w workspace, root, _ string) { w.run(root, "tar", "-xf", "../new.tar") },
	"git checkout": func(w workspace, root, _ string) { w.run(root, "git", "checkout", "-q", "two") },
}

// However a file is saved, its pod is never missing on the way (kubernetes#52939,
// 40331, 136931), and what is left beside it is no manifest.
func TestSavedFileNeverLosesItsPod(t *testing.T) {
	for name, save := range waysToSave {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := workspace{t}
			parent := t.TempDir()
			root := filepath.Join(parent, "manifests")
			a := filepath.Join(root, "a.yaml")
			must(t, os.Mkdir(root, 0o700))
			// What tar and git are to bring.
			write(t, a, edited("2"))
			w.run(root, "tar", "-cf", "../new.tar", "a.yaml")
			w.run(root, "git", "init", "-q", "-b", "two")
			w.run(root, "git", "add", "a.yaml")
			w.run(root, "git", "commit", "-qm", "two")
			w.run(root, "git", "checkout", "-qb", "one")
			write(t, filepath.Join(parent, "new.yaml"), edited("2"))
			write(t, a, pods("a"))
			write(t, filepath.Join(root, "b.yaml"), pods("b"))
			w.run(root, "git", "add", ".")
			w.run(root, "git", "commit", "-qm", "one")
			write(t, filepath.Join(root, "b.yaml"), pods("b"))

			s, _ := start(t, root)
			s.exactly(t, "a.yaml:a b.yaml:b")
			save(w, root, a)
			for {
				c := <-s.calls
				if !hasPod(c, "a-node") {
					t.Fatalf("on the way: %s", c)
				}
				if len(c.set.Pods) > 0 && bytes.Contains(c.set.Pods[0].Manifest, []byte("busybox:2")) {
					break
				}
			}
		})
	}
}

// hasPod reports whether a call leaves the pod wanted.
func hasPod(c call, name string) bool {
	for _, s := range c.set.Pods {
		if s.Pod.Name == name {
			return true
		}
	}
	return false
}

// A file that is moved within the directory takes its pod along at once, and by
// whichever way.
func TestMovedFileIsTheSamePod(t *testing.T) {
	for i, move := range []func(from, to string) error{
		os.Rename,
		func(from, to string) error { // across file systems: copied, then deleted
			data, err := os.ReadFile(from)
			if err == nil {
				err = os.WriteFile(to, data, 0o600)
			}
			if err == nil {
				err = os.Remove(from)
			}
			return err
		},
	} {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			root := t.TempDir()
			write(t, filepath.Join(root, "a.yaml"), pods("a"))
			s, _ := start(t, root)
			s.exactly(t, "a.yaml:a")
			must(t, move(filepath.Join(root, "a.yaml"), filepath.Join(root, "b.yaml")))
			for c := range s.calls {
				if !hasPod(c, "a-node") {
					t.Fatalf("on the way: %s", c)
				}
				if c.String() == "b.yaml:a" {
					break
				}
			}
		})
	}
}
