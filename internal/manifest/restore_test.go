package manifest_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"pgregory.net/rapid"
	sigsjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

// checkRoundTrip checks what must hold of every accepted pod.
func checkRoundTrip(t *testing.T, p manifest.Parser, s pod.Submission) {
	t.Helper()
	restored, err := manifest.Restore(s.Manifest)
	if err != nil {
		t.Fatalf("restore: %v", err)
	}
	if !equality.Semantic.DeepEqual(restored, s.Pod) {
		t.Fatalf("restored %+v\nsubmitted %+v", restored, s.Pod)
	}
	// Kubernetes' own strict decoder finds nothing that was let through.
	strict, err := sigsjson.UnmarshalStrict(s.Manifest, &corev1.Pod{})
	if err != nil || len(strict) > 0 {
		t.Fatalf("strict decoding: %v %v\n%s", err, strict, s.Manifest)
	}
	// The canonical form is its own canonical form.
	set := p.Parse("again", s.Manifest, pod.SourceHTTP)
	if len(set.Pods) != 1 || !bytes.Equal(set.Pods[0].Manifest, s.Manifest) {
		t.Fatalf("canonical form of the canonical form:\n%s\n%+v", s.Manifest, set)
	}
}

func TestRestore(t *testing.T) {
	s := accepted(t, podWith("  terminationGracePeriodSeconds: 5\n", "    resources: {limits: {cpu: 0.1}}\n"))
	checkRoundTrip(t, parser, s)
	if strings.Contains(string(s.Manifest), "restartPolicy") {
		t.Errorf("defaults in the canonical form: %s", s.Manifest)
	}
	c := s.Pod.Spec.Containers[0]
	if s.Pod.Spec.RestartPolicy != corev1.RestartPolicyAlways || c.ImagePullPolicy != corev1.PullAlways || c.Resources.Requests.Cpu().String() != "100m" {
		t.Errorf("not defaulted: %+v", s.Pod.Spec)
	}
}

// What was accepted once is not lost because this binary knows less or is
// stricter.
func TestRestoreDoesNotValidate(t *testing.T) {
	p, err := manifest.Restore([]byte(`{"metadata":{"name":"UPPER"},"spec":{"containers":[{"name":"c","image":"","later":1}],"later":{}}}`))
	if err != nil || p.Name != "UPPER" || len(p.Spec.Containers) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := manifest.Restore([]byte("{")); !errors.Is(err, pod.Internal) {
		t.Errorf("error %v", err)
	}
}

func TestCanonicalFormDoesNotDependOnHowItIsWritten(t *testing.T) {
	a := accepted(t, podWith("  hostname: x\n  dnsPolicy: ClusterFirst\n", "    securityContext: {}\n"))
	b := accepted(t, `{"kind":"Pod","spec":{"hostname":"x","containers":[{"image":"busybox","name":"c"}],"volumes":null},"metadata":{"name":"web","namespace":"default"},"apiVersion":"v1"}`)
	if a.Hash != b.Hash || len(a.Hash) != 64 {
		t.Errorf("hashes %s and %s of\n%s\n%s", a.Hash, b.Hash, a.Manifest, b.Manifest)
	}
}

// Writing defaults out, fields that are not supported included, changes
// nothing that runs, and neither does a binary that defaults more
// (kubernetes#116080, 67537: pods restarted when a default was added).
func TestWritingDefaultsOutIsNoChange(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := drawManifest(rt)
		set := parser.Parse("web.yaml", []byte(text), pod.SourceHTTP)
		if len(set.Pods) != 1 {
			rt.Fatalf("%s\nrejected: %+v", text, set.Rejections)
		}
		short := set.Pods[0]
		written, err := json.Marshal(short.Pod)
		if err != nil {
			rt.Fatal(err)
		}
		asYAML, err := yaml.JSONToYAML(written)
		if err != nil {
			rt.Fatal(err)
		}
		set = parser.Parse("web.yaml", asYAML, pod.SourceHTTP)
		if len(set.Pods) != 1 {
			rt.Fatalf("%s\nrejected: %+v", asYAML, set.Rejections)
		}
		if wide, containers := pod.Diff(short.Pod, set.Pods[0].Pod); wide || len(containers) > 0 {
			rt.Fatalf("%s\nchanged: %v %v", asYAML, wide, containers)
		}
		checkRoundTrip(t, parser, short)
	})
}

// drawManifest draws a valid manifest out of the supported fields.
func drawManifest(t *rapid.T) string {
	var spec, container string
	maybe := func(to *string, line string) {
		if rapid.Bool().Draw(t, strings.TrimSpace(line)) {
			*to += line
		}
	}
	maybe(&spec, "  restartPolicy: OnFailure\n")
	maybe(&spec, "  hostname: www\n")
	maybe(&spec, "  hostPID: true\n")
	maybe(&spec, "  hostNetwork: true\n")
	maybe(&spec, "  terminationGracePeriodSeconds: 3\n")
	maybe(&spec, "  serviceAccountName: default\n")
	maybe(&spec, "  enableServiceLinks: false\n")
	maybe(&spec, "  initContainers: [{name: i, image: 'busybox:1'}]\n")
	spec += "  volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 1Mi}}, {name: w}, {name: h, hostPath: {path: /srv}}]\n"
	maybe(&container, "    command: [a]\n")
	maybe(&container, "    env: [{name: A, value: b}, {name: C}]\n")
	maybe(&container, "    imagePullPolicy: Never\n")
	maybe(&container, "    ports: [{containerPort: 80}]\n")
	maybe(&container, "    resources: {limits: {memory: 64Mi, cpu: 0.25}}\n")
	maybe(&container, "    volumeMounts: [{name: v, mountPath: /v}, {name: h, mountPath: /h, readOnly: true}]\n")
	maybe(&container, "    stdin: false\n")
	return podWith(spec, container)
}
