package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestApply(t *testing.T) {
	a := newAgent(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "b.yml"), podManifest("b"))
	write(t, filepath.Join(dir, "a.yaml"), podManifest("a1")+"---\n"+podManifest("a2"))
	write(t, filepath.Join(dir, "c.json"), `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"c"},"spec":{"containers":[{"name":"c","image":"i"}]}}`)
	write(t, filepath.Join(dir, "README.md"), "not a manifest")
	write(t, filepath.Join(dir, "more", "d.yaml"), podManifest("d"))

	if got, want := a.must("apply", "--dry-run", "-f", dir), "pod/a1 created (server dry run)\npod/a2 created (server dry run)\npod/b created (server dry run)\npod/c created (server dry run)\n"; got != want {
		t.Errorf("dry run:\n%s", got)
	}
	if got, want := a.must("apply", "-f", dir), "pod/a1 created\npod/a2 created\npod/b created\npod/c created\n"; got != want {
		t.Errorf("a directory:\n%s", got)
	}
	write(t, filepath.Join(dir, "b.yml"), strings.Replace(podManifest("b"), "busybox", "nginx", 1))
	if got, want := a.must("apply", "-R", "-f", filepath.Join(dir, "b.yml"), "-f", dir), "pod/b configured\npod/a1 unchanged\npod/a2 unchanged\npod/b unchanged\npod/c unchanged\npod/d created\n"; got != want {
		t.Errorf("again, recursively:\n%s", got)
	}
	if d := a.pod("d"); d.Unit != filepath.Join(dir, "more", "d.yaml") {
		t.Errorf("the file is not recorded: %q", d.Unit)
	}
	if o := a.runWith(podManifest("e"), "apply", "-n", "prod", "-f", "-"); o.code != 0 || o.stdout != "pod/e created\n" {
		t.Errorf("standard input: %+v", o)
	}
	if _, err := a.store.Pod(t.Context(), pod.Key{Namespace: "prod", Name: "e"}); err != nil {
		t.Error(err)
	}
}

// Every field error is printed with its place, what is right is applied all the
// same, and the exit status says that something was not (podman#29804, 18778,
// 25084: errors shown nowhere, and status 0).
func TestApplyRefused(t *testing.T) {
	a := newAgent(t)
	dir := t.TempDir()
	t.Chdir(dir)
	write(t, "a.yaml", strings.Replace(podManifest("a"), "image: busybox", "imagee: busybox\n    imagePullPolicy: Sometimes", 1))
	write(t, "b.yaml", podManifest("b")+"---\nkind: Deployment\n")
	write(t, "c.yaml", podManifest("c"))
	write(t, "d.yaml", "a: [")
	o := a.run("apply", "-f", ".")
	if o.code != 1 || o.stdout != "pod/c created\n" {
		t.Errorf("status %d, printed %q", o.code, o.stdout)
	}
	golden(t, "refused", o.stderr)
}

func TestApplyConflict(t *testing.T) {
	a := newAgent(t)
	a.drop("web.yaml", webManifest)
	o := a.runWith(podManifest("web-"+node), "apply", "-f", "-")
	if o.code != 1 {
		t.Errorf("status %d", o.code)
	}
	golden(t, "conflict", o.stderr)
}

func TestApplyPrintsWarnings(t *testing.T) {
	a := newAgent(t)
	o := a.runWith(strings.Replace(podManifest("a"), "  name: a\n", "  name: a\n  uid: \"1\\\"2\"\n", 1), "apply", "-f", "-")
	if o.code != 0 || !strings.HasPrefix(o.stderr, "Warning: pod/a: ") || !strings.Contains(o.stderr, "metadata.uid") || strings.Contains(o.stderr, `\`) {
		t.Errorf("%+v", o)
	}
}

func TestDelete(t *testing.T) {
	a := newAgent(t)
	a.drop("web.yaml", webManifest)
	file := filepath.Join(t.TempDir(), "pods.yaml")
	write(t, file, podManifest("a")+"---\n# nothing\n---\napiVersion: v1\nkind: List\nitems:\n- {kind: Pod, metadata: {name: b, namespace: prod}, apiVersion: v1, spec: {containers: [{name: c, image: i}]}}\n")
	a.must("apply", "-f", file)
	if got, want := a.must("delete", "--wait=false", "-f", file), "pod \"a\" deleted from default namespace\npod \"b\" deleted from prod namespace\n"; got != want {
		t.Errorf("delete -f:\n%s", got)
	}
	if d := a.pod("a").Deletion; d == nil || d.Cause != pod.CauseUser || d.Grace != 30*time.Second {
		t.Errorf("the deletion is %+v", d)
	}
	a.must("delete", "pod", "a", "--grace-period", "2", "--wait=false")
	if d := a.pod("a").Deletion; d.Grace > 10*time.Second {
		t.Errorf("asking again for less grace left %s", d.Grace)
	}

	// A file's pod, by its name in the file, is not to be deleted here; the
	// others named beside it are.
	a.runWith(podManifest("c"), "apply", "-f", "-")
	o := a.run("delete", "pod", "web", "c", "--wait=false")
	if o.code != 1 || o.stdout != "pod \"c\" deleted from default namespace\n" || !strings.Contains(o.stderr, "/etc/podstead/manifests (web.yaml)") {
		t.Errorf("%+v", o)
	}
	if o := a.run("delete", "pod", "ghost"); o.code != 1 || !strings.Contains(o.stderr, `pods "ghost" not found`) {
		t.Errorf("%+v", o)
	}
	if out := a.must("delete", "pod", "ghost", "--ignore-not-found"); out != "" {
		t.Errorf("printed %q", out)
	}
	write(t, file, podManifest("ghost"))
	if o := a.run("delete", "-f", file); o.code != 1 || !strings.Contains(o.stderr, `pods "ghost" not found`) {
		t.Errorf("%+v", o)
	}
	write(t, file, "kind: Deployment\nmetadata: {name: x}\n")
	if o := a.run("delete", "-f", file); o.code != 1 || !strings.Contains(o.stderr, "document 1: kind Deployment") {
		t.Errorf("%+v", o)
	}
}

func TestDeleteWaitsUntilGone(t *testing.T) {
	a := newAgent(t)
	a.runWith(podManifest("a"), "apply", "-f", "-")
	done := make(chan output, 1)
	go func() { done <- a.run("delete", "pod", "a") }()
	for a.pod("a").Deletion == nil { // it has asked
		select {
		case o := <-done:
			t.Fatalf("it did not wait: %+v", o)
		case <-t.Context().Done():
			t.Fatal(t.Context().Err())
		default:
		}
	}
	select {
	case o := <-done:
		t.Fatalf("it did not wait: %+v", o)
	default:
	}
	a.commit(a.pod("a"), pod.Record{Forget: true})
	if o := <-done; o.code != 0 || o.stdout != "pod \"a\" deleted from default namespace\n" {
		t.Errorf("%+v", o)
	}
}

func TestDeleteGivesUpWaiting(t *testing.T) {
	a := newAgent(t)
	a.runWith(podManifest("a"), "apply", "-f", "-")
	o := a.run("delete", "pod", "a", "--timeout", "60ms")
	if o.code != 1 || !strings.Contains(o.stderr, "not gone after 60ms") {
		t.Errorf("%+v", o)
	}
}
