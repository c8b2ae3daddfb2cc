package manifest_test

import (
	"bytes"
	"fmt"
	"os"
	"runtime"
	"testing"
	"time"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

// FuzzParse: whatever the bytes are, parsing ends, in time and memory that the
// limits bound, and gives the same each time; what is accepted has a canonical
// form that gives the same pod; what is refused is named, with a reason.
func FuzzParse(f *testing.F) {
	for _, m := range corpus(f) {
		f.Add([]byte(m.text))
	}
	for _, text := range []string{
		podWith("", ""),
		named("a") + "---\n" + named("b"),
		podWith("  volumes: [{name: v, hostPath: {path: /srv}}]\n  securityContext: {runAsNonRoot: false}\n", "    resources: {limits: &l {cpu: 1}, requests: *l}\n    volumeMounts: [{name: v, mountPath: /v}]\n"),
		podWith("  dnsPolicy: ClusterFirst\n  tolerations: []\n", "    env: [{name: A, value: yes}]\n    livenessProbe: {}\n"),
		`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"a"},"spec":{"containers":[{"name":"c","image":"i"}]}}]}`,
		"{}{}\n---\na: *a\n...\n%YAML 1.1\n---\n",
	} {
		f.Add([]byte(text))
	}
	exported, err := os.ReadFile("testdata/exported.yaml")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(exported)
	p := manifest.Parser{NodeName: "node-a", Limits: manifest.Limits{UnitBytes: 1 << 16, Documents: 100}}
	f.Fuzz(func(t *testing.T, data []byte) {
		set := parseBounded(t, p, data)
		again := p.Parse("u", data, pod.SourceHTTP)
		if fmt.Sprint(set.Rejections) != fmt.Sprint(again.Rejections) || len(set.Pods) != len(again.Pods) {
			t.Fatalf("two results:\n%+v\n%+v", set, again)
		}
		for i, s := range set.Pods {
			if s.Hash != again.Pods[i].Hash || !bytes.Equal(s.Manifest, again.Pods[i].Manifest) {
				t.Fatal("two canonical forms")
			}
			checkRoundTrip(t, p, s)
		}
		checkRejections(t, set)
	})
}

// parseBounded parses, and fails if that took more than any such input may.
func parseBounded(t *testing.T, p manifest.Parser, data []byte) pod.SourceSet {
	t.Helper()
	const maxTime, maxMemory = 20 * time.Second, 512 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := time.Now()
	set := p.Parse("u", data, pod.SourceHTTP)
	took := time.Since(start)
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; took > maxTime || allocated > maxMemory {
		t.Errorf("%d bytes took %v and %d MiB", len(data), took, allocated>>20)
	}
	return set
}

// checkRejections checks what must hold of whatever is refused.
func checkRejections(t *testing.T, set pod.SourceSet) {
	t.Helper()
	if (len(set.Rejections) > 0) != (len(set.Incomplete) > 0) {
		t.Fatalf("%d rejections, incomplete %v", len(set.Rejections), set.Incomplete)
	}
	for _, r := range set.Rejections {
		if len(r.Errors) == 0 || r.Place == "" {
			t.Fatalf("rejected without a reason or place: %+v", r)
		}
		for _, e := range r.Errors {
			if e.Message == "" || e.Reason == "" || len(e.Message) > 2000 {
				t.Fatalf("%s: message of %d bytes, reason %q", r.Place, len(e.Message), e.Reason)
			}
			if e.Field == "" && e.Line == 0 && r.Place != "u" {
				t.Fatalf("%s: neither field nor line: %s", r.Place, e.Message)
			}
		}
	}
}
