package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/wire"
)

func post(t *testing.T, h host, target, body string, header ...string) *httptest.ResponseRecorder {
	return h.call(t, "POST", target, body, append([]string{"Content-Type", "application/yaml"}, header...)...)
}

func results(s wire.Submitted) string {
	var out []string
	for _, i := range s.Items {
		out = append(out, i.Namespace+"/"+i.Name+" "+i.Result)
	}
	return strings.Join(out, ", ")
}

func TestSubmitAnswersWhatBecameOfEachPod(t *testing.T) {
	s := newStore(t)
	h := agentOn(t, s)
	for _, c := range []struct {
		name, target, body string
		code               int
		want               string
	}{
		{"new", "/manifests", manifestOf("a"), http.StatusCreated, "default/a created"},
		{"the same", "/manifests", manifestOf("a"), http.StatusOK, "default/a unchanged"},
		{"edited", "/manifests", manifestOf("a", "    args: [x]\n"), http.StatusOK, "default/a configured"},
		{"several", "/manifests", manifestOf("b") + "---\n" + manifestOf("a"), http.StatusCreated, "default/b created, default/a configured"},
		{"in a namespace", "/manifests?namespace=prod", manifestOf("a"), http.StatusCreated, "prod/a created"},
		{"JSON", "/manifests", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"j"},"spec":{"containers":[{"name":"c","image":"i"}]}}`, http.StatusCreated, "default/j created"},
	} {
		got := decode[wire.Submitted](t, post(t, h, c.target, c.body), c.code)
		if results(got) != c.want || got.Kind != wire.KindSubmitted || got.APIVersion != wire.APIVersion || got.DryRun {
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
}

func TestRefusalNamesEveryField(t *testing.T) {
	s := newStore(t)
	h := agentOn(t, s)
	body := manifestOf("good") + "---\n" + manifestOf("bad", "    imagePullPolicy: Sometimes\n    nonsense: 1\n")
	got := wantStatus(t, post(t, h, "/manifests?unit=web.yaml", body), http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	fields := map[string]bool{}
	for _, c := range got.Details.Causes {
		fields[c.Field] = true
		if !strings.Contains(c.Message, "web.yaml#2: line 1") { // 17 and 18
			t.Errorf("the cause does not say where: %+v", c)
		}
	}
	if !fields["spec.containers[0].imagePullPolicy"] || !fields["spec.containers[0].nonsense"] {
		t.Errorf("the causes name %v", fields)
	}
	if len(got.Rejections) != 1 || got.Rejections[0].Place != "web.yaml#2" || got.Rejections[0].Name != "bad" || got.Rejections[0].Errors[0].Line == 0 {
		t.Errorf("the rejections are %+v", got.Rejections)
	}
	if !strings.Contains(got.Message, "nothing was changed") || !strings.Contains(got.Message, "(and 1 more)") {
		t.Errorf("the message is %q", got.Message)
	}
	if _, err := s.Pod(t.Context(), pod.Key{Namespace: "default", Name: "good"}); pod.ClassOf(err) != pod.NotFound {
		t.Errorf("half of the request was taken: %v", err)
	}
	list, err := s.Rejections(t.Context())
	if err != nil || len(list) != 1 || list[0].Place != "web.yaml#2" {
		t.Errorf("recorded: %+v, %v", list, err)
	}
}

func TestAnotherSourcesPodIsAConflict(t *testing.T) {
	s := newStore(t)
	h := agentOn(t, s)
	drop(t, s, "web.yaml", manifestOf("web"))
	static := "web-" + node
	for name, w := range map[string]*httptest.ResponseRecorder{
		"submit":              post(t, h, "/manifests", manifestOf(static)),
		"dry run":             post(t, h, "/manifests?dryRun=All", manifestOf(static)),
		"withdraw":            h.call(t, "DELETE", "/manifests/default/"+static, ""),
		"dry run of withdraw": h.call(t, "DELETE", "/manifests/default/"+static+"?dryRun=All", ""),
	} {
		got := wantStatus(t, w, http.StatusConflict, metav1.StatusReasonConflict)
		if !strings.Contains(got.Message, "/etc/podstead/manifests (web.yaml)") {
			t.Errorf("%s: the owner is not named: %s", name, got.Message)
		}
	}
}

func TestDryRunChangesNothing(t *testing.T) {
	s := newStore(t)
	h := agentOn(t, s)
	post(t, h, "/manifests", manifestOf("a")+"---\n"+manifestOf("b"))
	body := manifestOf("a") + "---\n" + manifestOf("b", "    args: [x]\n") + "---\n" + manifestOf("c")
	got := decode[wire.Submitted](t, post(t, h, "/manifests?dryRun=All", body), http.StatusOK)
	if !got.DryRun || results(got) != "default/a unchanged, default/b configured, default/c created" {
		t.Errorf("got %+v", got)
	}
	if _, err := s.Pod(t.Context(), pod.Key{Namespace: "default", Name: "c"}); pod.ClassOf(err) != pod.NotFound {
		t.Errorf("c was made: %v", err)
	}
	wantStatus(t, post(t, h, "/manifests?dryRun=All", "nonsense: 1"), http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
	if list, err := s.Rejections(t.Context()); err != nil || len(list) > 0 {
		t.Errorf("recorded: %+v, %v", list, err)
	}
	if w := h.call(t, "DELETE", "/manifests/default/a?dryRun=All", ""); w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if d, err := s.Pod(t.Context(), pod.Key{Namespace: "default", Name: "a"}); err != nil || d.Deletion != nil {
		t.Errorf("a is being deleted: %+v, %v", d.Deletion, err)
	}
	for _, target := range []string{"/manifests?dryRun=yes", "/manifests?dryRun="} {
		wantStatus(t, post(t, h, target, manifestOf("a")), http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
}

// What is accepted and does nothing is said, in the header that kubectl shows.
func TestWarningsAreHeaders(t *testing.T) {
	h := agentOn(t, newStore(t))
	body := strings.Replace(manifestOf("a"), "  name: a\n", "  name: a\n  uid: 1\"2\\3\n", 1)
	w := post(t, h, "/manifests", body)
	got := w.Header().Values("Warning")
	if w.Code != http.StatusCreated || len(got) != 1 || !strings.HasPrefix(got[0], `299 - "pod/a: `) || !strings.Contains(got[0], "metadata.uid") {
		t.Errorf("%d %s: warnings %q", w.Code, w.Body, got)
	}
}

func TestBadSubmissions(t *testing.T) {
	s := newStore(t)
	h := agentOn(t, s)
	for name, c := range map[string]struct {
		body   string
		code   int
		reason metav1.StatusReason
	}{
		"nothing":       {"", http.StatusUnprocessableEntity, metav1.StatusReasonInvalid},
		"only comments": {"# nothing here\n", http.StatusBadRequest, metav1.StatusReasonBadRequest},
		"not YAML":      {"a: [", http.StatusUnprocessableEntity, metav1.StatusReasonInvalid},
		"not UTF-8":     {"apiVersion: \xff\xfe", http.StatusUnprocessableEntity, metav1.StatusReasonInvalid},
		"another kind":  {"apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: x}\n", http.StatusUnprocessableEntity, metav1.StatusReasonInvalid},
		"twice":         {manifestOf("a") + "---\n" + manifestOf("a"), http.StatusUnprocessableEntity, metav1.StatusReasonInvalid},
	} {
		t.Run(name, func(t *testing.T) { wantStatus(t, post(t, h, "/manifests", c.body), c.code, c.reason) })
	}
	// curl -d sends this, and has taken the line ends out of the manifest.
	got := wantStatus(t, post(t, h, "/manifests", manifestOf("a"), "Content-Type", "application/x-www-form-urlencoded"), http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType)
	if !strings.Contains(got.Message, "--data-binary") {
		t.Errorf("no way out is told: %s", got.Message)
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/manifests", endless{})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	wantStatus(t, w, http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge)
	uids, err := s.UIDs(t.Context())
	if err != nil || len(uids) > 0 {
		t.Errorf("pods were made: %v, %v", uids, err)
	}
}

// The name of the unit goes into history and terminals.
func TestUnitIsCleaned(t *testing.T) {
	s := newStore(t)
	h := agentOn(t, s)
	for target, want := range map[string]string{
		"/manifests":                                  "request",
		"/manifests?unit=web.yaml":                    "web.yaml",
		"/manifests?unit=w%1b%5b31meb%0a%ff":          "w[31meb",
		"/manifests?unit=" + strings.Repeat("x", 201): "request",
	} {
		post(t, h, target, manifestOf("a"))
		d, err := s.Pod(t.Context(), pod.Key{Namespace: "default", Name: "a"})
		if err != nil || d.Unit != want {
			t.Errorf("%s: %q, %v", target, d.Unit, err)
		}
		post(t, h, "/manifests?unit=between", manifestOf("a", "    args: ["+target[len(target)-1:]+"]\n"))
	}
}

func TestWithdraw(t *testing.T) {
	s := newStore(t)
	h := agentOn(t, s)
	post(t, h, "/manifests", manifestOf("a")+"---\n"+manifestOf("b"))
	got := decode[metav1.Status](t, h.call(t, "DELETE", "/manifests/default/a?gracePeriodSeconds=7", ""), http.StatusOK)
	if got.Status != metav1.StatusSuccess || got.Details.Name != "a" {
		t.Errorf("got %+v", got)
	}
	if d, err := s.Pod(t.Context(), pod.Key{Namespace: "default", Name: "a"}); err != nil || d.Deletion == nil || d.Deletion.Grace != 7*time.Second {
		t.Errorf("the deletion is %+v, %v", d.Deletion, err)
	}
	h.call(t, "DELETE", "/manifests/default/b", "")
	if d, err := s.Pod(t.Context(), pod.Key{Namespace: "default", Name: "b"}); err != nil || d.Deletion == nil || d.Deletion.Grace != 30*time.Second {
		t.Errorf("the pod's own grace is not used: %+v, %v", d.Deletion, err)
	}
	missing := wantStatus(t, h.call(t, "DELETE", "/manifests/default/x", ""), http.StatusNotFound, metav1.StatusReasonNotFound)
	if missing.Message != `pods "x" not found` {
		t.Errorf("the message is %q", missing.Message)
	}
	for _, grace := range []string{"-1", "x", "1.5", "99999999999"} {
		wantStatus(t, h.call(t, "DELETE", "/manifests/default/b?gracePeriodSeconds="+grace, ""), http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
}
