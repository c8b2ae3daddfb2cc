package e2e

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/wire"
)

// results are what became of a submission's pods, in its order.
func results(t *testing.T, got answer) []string {
	t.Helper()
	var taken wire.Submitted
	if err := json.Unmarshal(got.body, &taken); err != nil {
		t.Fatalf("%v in %s", err, got.body)
	}
	var list []string
	for _, item := range taken.Items {
		list = append(list, item.Name+" "+item.Result)
	}
	return list
}

func wantStatus(t *testing.T, got answer, status int, words ...string) {
	t.Helper()
	if got.status != status {
		t.Fatalf("the answer is %d, want %d: %s", got.status, status, got.body)
	}
	for _, w := range words {
		if !strings.Contains(string(got.body), w) {
			t.Errorf("the answer does not say %q: %s", w, got.body)
		}
	}
}

// causes are the fields that a refusal names.
func causes(t *testing.T, got answer) []string {
	t.Helper()
	var status metav1.Status
	if err := json.Unmarshal(got.body, &status); err != nil || status.Kind != "Status" || status.Details == nil {
		t.Fatalf("it is not a Status with details (%v): %s", err, got.body)
	}
	var fields []string
	for _, c := range status.Details.Causes {
		fields = append(fields, c.Field)
	}
	return fields
}

func TestSubmit(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	web := newPod("web", sleeper("a"))
	var was map[string]container

	t.Run("create", func(t *testing.T) {
		got := a.submit(t, manifest(t, web))
		wantStatus(t, got, http.StatusCreated)
		if list := results(t, got); !slices.Equal(list, []string{"web created"}) {
			t.Errorf("the results are %v", list)
		}
		was = a.awaitRunning(t, "web", "a")
	})
	t.Run("the same again", func(t *testing.T) {
		got := a.submit(t, manifest(t, web))
		wantStatus(t, got, http.StatusOK)
		if list := results(t, got); !slices.Equal(list, []string{"web unchanged"}) {
			t.Errorf("the results are %v", list)
		}
		same(t, was, a.live(t, "web"))
	})
	t.Run("edit, and one more", func(t *testing.T) {
		web.Spec.Containers[0] = with(web.Spec.Containers[0], "N", "1")
		got := a.submit(t, manifest(t, web, newPod("other", sleeper("a"))))
		wantStatus(t, got, http.StatusCreated)
		if list := results(t, got); !slices.Equal(list, []string{"web configured", "other created"}) {
			t.Errorf("the results are %v", list)
		}
		replaced(t, was, a.awaitGeneration(t, "web", 2), "a")
		a.awaitRunning(t, "other", "a")
	})
	t.Run("refused with every field", func(t *testing.T) { a.submitInvalid(t) })
	t.Run("too large", func(t *testing.T) {
		got := a.submit(t, bytes.Repeat([]byte("# nothing\n"), 500_000))
		wantStatus(t, got, http.StatusRequestEntityTooLarge)
	})
	t.Run("not a manifest", func(t *testing.T) {
		got := a.asked(t, request{method: http.MethodPost, path: wire.PathManifests, media: "application/x-www-form-urlencoded", body: manifest(t, web)})
		wantStatus(t, got, http.StatusUnsupportedMediaType, "application/yaml")
		wantStatus(t, a.submit(t, []byte("# no pod\n")), http.StatusBadRequest)
	})
	t.Run("dry run", func(t *testing.T) {
		got := a.asked(t, request{method: http.MethodPost, path: query(wire.PathManifests, url.Values{"dryRun": {"All"}}), body: manifest(t, newPod("dry", sleeper("a")))})
		wantStatus(t, got, http.StatusOK, "created")
		if _, err := a.pod("dry"); err == nil {
			t.Error("a dry run made a pod")
		}
	})
	t.Run("a file's pod", func(t *testing.T) { a.submitOverFile(t) })
	t.Run("delete", func(t *testing.T) {
		wantStatus(t, a.withdraw(t, "web"), http.StatusOK)
		a.awaitGone(t, "web")
		wantStatus(t, a.withdraw(t, "web"), http.StatusNotFound, "web")
		a.awaitRunning(t, "other", "a")
	})
}

// submitInvalid sends a sound pod and one with five faults: neither is taken,
// and all five are named.
func (a *agent) submitInvalid(t *testing.T) {
	got := a.submit(t, append(manifest(t, newPod("sound", sleeper("a"))), []byte(`
---
apiVersion: v1
kind: Pod
metadata: {name: UNSOUND}
spec:
  restartPolicy: Sometimes
  containers:
  - name: a
    image: docker.io/UPPER:1
    livenessProbe: {tcpSocket: {port: 80}}
    volumeMounts: [{name: missing, mountPath: /m}]
`)...))
	wantStatus(t, got, http.StatusUnprocessableEntity)
	fields := causes(t, got)
	for _, want := range []string{"metadata.name", "spec.restartPolicy", "spec.containers[0].image", "spec.containers[0].livenessProbe", "spec.containers[0].volumeMounts[0].name"} {
		if !slices.Contains(fields, want) {
			t.Errorf("%s is not among the causes %v", want, fields)
		}
	}
	if _, err := a.pod("sound"); err == nil {
		t.Error("one pod of a refused submission was taken")
	}
	if list := a.rejections(t); len(list) == 0 {
		t.Error("the refusal is not among the rejections")
	}
}

// submitOverFile shows that HTTP can neither change nor delete a file's pod.
func (a *agent) submitOverFile(t *testing.T) {
	a.drop(t, newPod("filed", sleeper("a")))
	was := a.awaitRunning(t, static("filed"), "a")
	wantStatus(t, a.withdraw(t, static("filed")), http.StatusConflict, "filed.yaml", a.manifests)
	wantStatus(t, a.submit(t, manifest(t, newPod(static("filed"), sleeper("b")))), http.StatusConflict, "filed.yaml")
	same(t, was, a.live(t, static("filed")))
}

// TestConflict has a file and a URL want the same name: the second is refused and
// told so (kubernetes#136931).
func TestConflict(t *testing.T) {
	t.Parallel()
	a, site := startWithURL(t)
	shared := static("shared")
	a.drop(t, newPod("shared", with(sleeper("a"), "OWNER", "file")))
	was := a.awaitRunning(t, shared, "a")
	first := a.mustPod(t, shared).UID

	site.set(manifest(t, newPod("shared", with(sleeper("a"), "OWNER", "url"))))
	eventually(t, "the URL's pod is rejected, naming the owner", func() error {
		list := a.rejections(t)
		found := slices.ContainsFunc(list, func(r rejection) bool {
			return r.Reason == "Conflict" && strings.HasPrefix(r.Source, "url:") && r.Pod == shared && strings.Contains(r.Message, "shared.yaml")
		})
		return unless(found, "rejections are %+v", list)
	})
	same(t, was, a.live(t, shared))

	a.remove(t, "shared.yaml")
	eventually(t, "the URL's pod takes over", func() error {
		p, err := a.pod(shared)
		if err != nil {
			return err
		}
		return unless(p.UID != first, "it is still the file's")
	})
	is := a.awaitRunning(t, shared, "a")
	replaced(t, was, is, "a", "POD")
	if env := a.inspect(t, is["a"].ID, "{{.Config.Env}}"); !strings.Contains(env, "OWNER=url") {
		t.Errorf("the file's pod runs: %s", env)
	}
	a.awaitNoRejection(t)
	if ids := a.podmanPods(t, shared); len(ids) != 1 {
		t.Errorf("there are %d Podman pods of one pod", len(ids))
	}
}
