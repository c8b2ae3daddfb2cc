package e2e

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"podstead.io/podstead/internal/pod"
)

// bad is a manifest that must be refused.
type bad struct {
	name, text string
	// field is what the refusal must name; empty: it is no matter of a field.
	field string
}

// badPods are a kind of mistake each. The corpus of all is that of the parser's own
// tests; these go the whole way.
func badPods() []bad {
	const head = "apiVersion: v1\nkind: Pod\nmetadata: {name: %s}\n"
	made := func(name, spec string) string { return fmt.Sprintf(head, "bad-"+name) + "spec: " + spec + "\n" }
	const a = "{name: a, image: busybox}"
	return []bad{
		{"empty-spec", made("empty-spec", "{}"), "spec.containers"},
		{"no-image", made("no-image", "{containers: [{name: a}]}"), "spec.containers[0].image"},
		{"unknown-field", made("unknown-field", "{containers: ["+a+"], replicas: 3}"), "spec.replicas"},
		{"misplaced", made("misplaced", "{containers: [{name: a, image: busybox, restartPolicy: Never}]}"), "spec.containers[0].restartPolicy"},
		{"same-name-twice", made("same-name-twice", "{containers: ["+a+", "+a+"]}"), "spec.containers[1].name"},
		{"bad-name", made("Bad_Name", "{containers: ["+a+"]}"), "metadata.name"},
		{"negative-memory", made("negative-memory", "{containers: [{name: a, image: busybox, resources: {limits: {memory: -1}}}]}"), "spec.containers[0].resources.limits[memory]"},
		{"no-such-volume", made("no-such-volume", "{containers: [{name: a, image: busybox, volumeMounts: [{name: v, mountPath: /v}]}]}"), "spec.containers[0].volumeMounts[0].name"},
		{"port-too-high", made("port-too-high", "{containers: [{name: a, image: busybox, ports: [{containerPort: 70000}]}]}"), "spec.containers[0].ports[0].containerPort"},
		{"wrong-type", made("wrong-type", "{containers: {name: a}}"), "spec.containers"},
		{"wrong-kind", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec: {}\n", "kind"},
		{"no-kind", "metadata: {name: nameless}\n", ""},
		{"tabs", "apiVersion: v1\n\tkind: Pod\n", ""},
		{"unclosed", "apiVersion: v1\nkind: Pod\nmetadata: {name: x\n", ""},
		{"key-twice", fmt.Sprintf(head, "bad-key-twice") + "kind: Pod\nspec: {containers: [" + a + "]}\n", ""},
		{"not-utf8", fmt.Sprintf(head, "bad-not-utf8") + "spec: {containers: [{name: a, image: \"busy\xff\xfebox\"}]}\n", ""},
		{"binary", string(bytes.Repeat([]byte{0, 1, 2, 0xff}, 2048)), ""},
		{"scalar", "just a line of text\n", ""},
		{"bomb", "a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\n", ""},
		{"deep", strings.Repeat("[", 20_000), ""},
		{"large", fmt.Sprintf(head, "bad-large") + "# " + strings.Repeat("x", 5<<20) + "\nspec: {containers: [" + a + "]}\n", ""},
	}
}

// TestBadInputDisturbsNothing gives the agent every kind of bad manifest by every
// way there is, beside and in place of good ones. What runs stays the processes
// that it was, and every refusal can be read (podman#29804, podman#12756).
func TestBadInputDisturbsNothing(t *testing.T) {
	t.Parallel()
	a, site := startWithURL(t, "--file-check-frequency", "3s")
	good := newPod("web", sleeper("a"), sleeper("b"))
	a.drop(t, good)
	wantStatus(t, a.submit(t, manifest(t, newPod("sent", sleeper("a")))), http.StatusCreated)
	site.set(manifest(t, newPod("far", sleeper("a"))))
	was := map[string]map[string]container{
		static("web"): a.awaitRunning(t, static("web"), "a", "b"),
		"sent":        a.awaitRunning(t, "sent", "a"),
		static("far"): a.awaitRunning(t, static("far"), "a"),
	}
	undisturbed := func(t *testing.T) {
		t.Helper()
		for name, before := range was {
			same(t, before, a.live(t, name))
			if p := a.mustPod(t, name); p.Generation != 1 {
				t.Errorf("pod %s is at generation %d", name, p.Generation)
			}
		}
		if err := a.healthy("/healthz"); err != nil {
			t.Error(err)
		}
	}

	t.Run("as files of their own", func(t *testing.T) {
		a.badFiles(t)
		undisturbed(t)
	})
	t.Run("in place of a good one", func(t *testing.T) {
		for _, b := range badPods() {
			a.put(t, "web.yaml", []byte(b.text))
			eventually(t, b.name+" in place of a good file is rejected", func() error { return a.rejectedAs("web.yaml", b.field) })
			a.put(t, "web.yaml", manifest(t, good))
			eventually(t, "the good file is taken again", func() error {
				err := a.rejectedAs("web.yaml", "")
				return unless(err != nil, "it is still rejected")
			})
		}
		undisturbed(t)
	})
	t.Run("posted", func(t *testing.T) {
		for _, b := range badPods() {
			got := a.submit(t, []byte(b.text))
			if got.status < 400 || got.status >= 500 || len(got.body) == 0 {
				t.Errorf("%s is answered %d %q", b.name, got.status, got.body)
			} else if b.field != "" && !strings.Contains(string(got.body), b.field) {
				t.Errorf("%s: %s is not named in %s", b.name, b.field, got.body)
			}
		}
		undisturbed(t)
	})
	t.Run("from the URL", func(t *testing.T) {
		for _, b := range badPods() {
			site.set([]byte(b.text))
			site.awaitPolls(t)
		}
		undisturbed(t)
		site.set(manifest(t, newPod("far", sleeper("a"))))
		site.awaitPolls(t)
	})
	a.proveAlive(t)
	undisturbed(t)
	for _, c := range a.containers(t, "") {
		if _, wanted := was[c.Labels[pod.LabelPodName]]; !wanted || c.attempt() != 0 {
			t.Errorf("there is %s", c)
		}
	}
}

// badFiles puts every bad manifest, and what is no file, into the directory, waits
// until each is rejected or passed over, and takes them away again.
func (a *agent) badFiles(t *testing.T) {
	t.Helper()
	for _, b := range badPods() {
		a.put(t, b.name+".yaml", []byte(b.text))
	}
	a.put(t, "second-web.yaml", manifest(t, newPod("web", sleeper("other"))))
	nothing, fifo, folder := filepath.Join(a.manifests, "nothing.yaml"), filepath.Join(a.manifests, "fifo.yaml"), filepath.Join(a.manifests, "folder.yaml")
	if err := os.Symlink("/no/such/file", nothing); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, b := range badPods() {
		eventually(t, b.name+" is rejected", func() error { return a.rejectedAs(b.name+".yaml", b.field) })
	}
	eventually(t, "a second pod of the same name is rejected", func() error { return a.rejectedAs("second-web.yaml", "metadata.name") })
	eventually(t, "a link to nothing is rejected", func() error { return a.rejectedAs("nothing.yaml", "") })
	for _, path := range []string{nothing, fifo, folder} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	a.remove(t, "second-web.yaml")
	for _, b := range badPods() {
		a.remove(t, b.name+".yaml")
	}
	eventually(t, "no file is rejected", func() error {
		rejected := a.rejections(t)
		return unless(len(rejected) == 0, "rejections are %+v", rejected)
	})
}

// rejectedAs is nil when there is a rejection of the file that names the field and
// says something.
func (a *agent) rejectedAs(file, field string) error {
	rows, err := a.sql(`SELECT e.value ->> 'field' AS field, e.value ->> 'message' AS message FROM rejections, json_each(errors) e WHERE unit = ?1`, file)
	if err != nil {
		return err
	}
	found := slices.ContainsFunc(rows, func(r map[string]any) bool {
		return (field == "" || r["field"] == field) && r["message"] != nil && r["message"] != ""
	})
	return unless(found, "its rejections are %.2000v", rows)
}
