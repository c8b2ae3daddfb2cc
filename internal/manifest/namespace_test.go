package manifest_test

import (
	"strings"
	"testing"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

func TestNamespaceOfPodsThatNameNone(t *testing.T) {
	other := strings.Replace(named("b"), "name: b", "name: b\n  namespace: other", 1)
	for namespace, want := range map[string]string{"": "default", "prod": "prod"} {
		p := manifest.Parser{NodeName: "n", Namespace: namespace}
		set := p.Parse("u", []byte(named("a")+"\n---\n"+other), pod.SourceHTTP)
		if len(set.Pods) != 2 || set.Pods[0].Pod.Namespace != want || set.Pods[1].Pod.Namespace != "other" {
			t.Errorf("with %q: %+v", namespace, set)
		}
	}
}
