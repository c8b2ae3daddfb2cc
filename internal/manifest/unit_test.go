package manifest_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf16"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

func named(name string) string {
	return strings.Replace(podWith("", ""), "name: web", "name: "+name, 1)
}

func utf16le(s string) string {
	var b strings.Builder
	for _, u := range utf16.Encode([]rune(s)) {
		b.WriteByte(byte(u))
		b.WriteByte(byte(u >> 8))
	}
	return b.String()
}

// Spellings of faults that the corpus of bad manifests has.
func TestOtherSpellings(t *testing.T) {
	tests := []struct{ name, text, message string }{
		{"blanks", " \n\n", "nothing in it"},
		{"what a power cut leaves", strings.Repeat("\x00", 4096), "nothing in it"},
		{"UTF-16 without a mark", utf16le(podWith("", "")), "UTF-8"},
		{"JSON nested too deep", `{"a":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + "}", "100 levels"},
		{"no spec", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", "Required value"},
		{"only init containers", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {initContainers: [{name: i, image: i}]}\n", "Required value"},
		{"an empty quantity", podWith("", "    resources: {limits: {memory: }}\n"), "64Mi"},
		{"a name that climbs", named("../../etc"), "lower case"},
		{"nothing but a name", "name: web\n", "kind: Pod"},
		{"a shell script", "#!/bin/sh\npodman run busybox\n", "a pod starts with"},
		{"a tag that runs code", "!!python/object/apply:os.system [reboot]\n", "means nothing here"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set := parse(t, tt.text)
			if len(set.Pods) != 0 || len(set.Rejections) != 1 {
				t.Fatalf("%d pods, rejections %+v", len(set.Pods), set.Rejections)
			}
			if e := set.Rejections[0].Errors[0]; !strings.Contains(e.Message, tt.message) {
				t.Errorf("%s; want …%s…", e.Message, tt.message)
			}
		})
	}
}

func TestSeveralDocuments(t *testing.T) {
	text := "# two pods, one broken document and a list\n---\n" + named("a") + "---\nkind: [\n---\n" + named("b") +
		"---\napiVersion: v1\nkind: PodList\nitems:\n- metadata: {name: c}\n  spec: {containers: [{name: c, image: busybox}]}\n- kind: Pod\n- text\n"
	set := parse(t, text)
	var places []string
	for _, s := range set.Pods {
		places = append(places, s.Key().String()+" "+s.Place)
	}
	want := []string{"default/a-node-a web.yaml", "default/b-node-a web.yaml#3", "default/c-node-a web.yaml#4.items[0]"}
	if !slices.Equal(places, want) {
		t.Errorf("pods %q, want %q", places, want)
	}
	var refused []string
	for _, r := range set.Rejections {
		refused = append(refused, fmt.Sprintf("%s %s %d", r.Place, r.Reason, r.Errors[0].Line))
	}
	want = []string{"web.yaml#2 Syntax 12", "web.yaml#4.items[1] Invalid 28", "web.yaml#4.items[2] Invalid 29"}
	if !slices.Equal(refused, want) {
		t.Errorf("rejections %q, want %q", refused, want)
	}
}

func TestStreamOfJSON(t *testing.T) {
	one := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"%s"},"spec":{"containers":[{"name":"c","image":"busybox"}]}}`
	set := parse(t, fmt.Sprintf(one, "a")+"\n"+fmt.Sprintf(one, "B")+"\n")
	if len(set.Pods) != 1 || set.Pods[0].Place != "web.yaml" {
		t.Errorf("pods %+v", set.Pods)
	}
	if len(set.Rejections) != 1 || set.Rejections[0].Place != "web.yaml#2" || set.Rejections[0].Errors[0].Line != 2 {
		t.Errorf("rejections %+v", set.Rejections)
	}
	twice := parse(t, strings.Replace(fmt.Sprintf(one, "a"), `"name":"c"`, `"name":"c","name":"d"`, 1))
	if len(twice.Rejections) != 1 || twice.Rejections[0].Errors[0].Field != "spec.containers[0].name" || twice.Rejections[0].Errors[0].Reason != "FieldValueDuplicate" {
		t.Errorf("a key twice: %+v", twice.Rejections)
	}
}

func TestUnitsThatWantNothing(t *testing.T) {
	for _, text := range []string{"# all commented out\n# apiVersion: v1\n", "---\n", "null\n", "apiVersion: v1\nkind: List\nitems: []\n", "apiVersion: v1\nkind: PodList\n"} {
		set := parse(t, text)
		if len(set.Pods)+len(set.Rejections)+len(set.Incomplete) != 0 {
			t.Errorf("%q gives %+v", text, set)
		}
	}
}

func TestSameNameTwiceInAUnit(t *testing.T) {
	set := parse(t, named("a")+"---\n"+named("a"))
	if len(set.Pods) != 1 || len(set.Rejections) != 1 {
		t.Fatalf("%+v", set)
	}
	r := set.Rejections[0]
	if r.Reason != pod.RejectedConflict || r.Place != "web.yaml#2" || r.Errors[0].Line != 13 || !strings.Contains(r.Errors[0].Message, "web.yaml") {
		t.Errorf("%+v", r)
	}
}

func TestOnlyStaticSourcesGetASuffix(t *testing.T) {
	for kind, want := range map[pod.SourceKind]string{pod.SourceDirectory: "web-node-a", pod.SourceURL: "web-node-a", pod.SourceHTTP: "web"} {
		set := parser.Parse("u", []byte(podWith("", "")), kind)
		if len(set.Pods) != 1 || set.Pods[0].Pod.Name != want {
			t.Errorf("%s: %+v", kind, set)
		}
	}
}

func TestRejectionKey(t *testing.T) {
	set := parse(t, strings.Replace(podWith("  x: y\n", ""), "  name: web\n", "  name: web\n  namespace: shop\n", 1))
	if want := (pod.Key{Namespace: "shop", Name: "web-node-a"}); set.Rejections[0].Key != want {
		t.Errorf("key %v, want %v", set.Rejections[0].Key, want)
	}
}

func TestRefuse(t *testing.T) {
	set := manifest.Refuse("c.yaml", pod.RejectedUnreadable, "permission denied")
	if len(set.Rejections) != 1 || set.Rejections[0].Reason != pod.RejectedUnreadable || set.Rejections[0].Place != "c.yaml" || !slices.Equal(set.Incomplete, []string{"c.yaml"}) {
		t.Errorf("%+v", set)
	}
}

func TestLimits(t *testing.T) {
	tests := []struct {
		name    string
		limits  manifest.Limits
		text    string
		message string
	}{
		{"a large unit", manifest.Limits{UnitBytes: 50}, podWith("", ""), "larger than 50 bytes"},
		{"many documents", manifest.Limits{Documents: 2}, named("a") + "---\n" + named("b") + "---\n" + named("c"), "more than 2 documents"},
		{"many items", manifest.Limits{Documents: 2}, "apiVersion: v1\nkind: PodList\nitems: [{}, {}, {}]\n", "more than 2 documents"},
		{"many JSON values", manifest.Limits{Documents: 2}, "{}{}{}", "more than 2 documents"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set := manifest.Parser{NodeName: "n", Limits: tt.limits}.Parse("web.yaml", []byte(tt.text), pod.SourceDirectory)
			if len(set.Pods) != 0 || len(set.Rejections) != 1 || !strings.Contains(set.Rejections[0].Errors[0].Message, tt.message) {
				t.Errorf("%+v", set)
			}
		})
	}
	large := strings.Replace(podWith("", ""), "  name: web\n", "  name: web\n  annotations: {a: "+strings.Repeat("x", 2000)+"}\n", 1)
	set := manifest.Parser{NodeName: "n", Limits: manifest.Limits{PodBytes: 2000}}.Parse("web.yaml", []byte(large), pod.SourceDirectory)
	if len(set.Rejections) != 1 || set.Rejections[0].Errors[0].Message != "the pod is larger than 2000 bytes; leave some of it out" {
		t.Errorf("a large pod: %+v", set)
	}
}

// Hostile documents are refused quickly and without expanding them.
func TestHostileDocuments(t *testing.T) {
	var chain strings.Builder
	chain.WriteString("a0: &a0 x\n")
	for i := 1; i < 20000; i++ {
		fmt.Fprintf(&chain, "a%d: &a%d {k: *a%d}\n", i, i, i-1)
	}
	const mega = 1 << 18
	tests := map[string]string{
		"a billion laughs":        laughs(),
		"a long chain of aliases": chain.String(),
		"many aliases of one":     "a: &a '" + strings.Repeat("x", 100000) + "'\nb: [" + strings.Repeat("*a, ", 1000) + "]\n",
		"open brackets":           strings.Repeat("[", mega),
		"open braces":             strings.Repeat("{", mega),
		"open JSON":               strings.Repeat(`{"a":`, mega/5),
		"dashes":                  strings.Repeat("- ", mega/2),
		"keys in keys":            strings.Repeat("? ", mega/2),
		"many keys":               strings.Repeat("a: b\n", mega/5),
		"many documents":          strings.Repeat("a: b\n---\n", mega/9),
		"many JSON items":         `{"items": [` + strings.Repeat("0,", mega/2) + "0]}",
		"many items":              "apiVersion: v1\nkind: List\nitems:\n" + strings.Repeat("- a\n", mega/4),
		"one long line":           strings.Repeat("a", mega),
		"one long key":            "{" + strings.Repeat("a", mega) + ": 1}",
		"many markers":            strings.Repeat("---\n", mega/4),
		"many unknown fields":     podWith(manyFields(mega/20), ""),
	}
	for name, text := range tests {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			set := parse(t, text)
			runtime.ReadMemStats(&after)
			if allocated := (after.TotalAlloc - before.TotalAlloc) >> 20; allocated > 200 {
				t.Errorf("allocated %d MiB for %d bytes", allocated, len(text))
			}
			if d := time.Since(start); d > 30*time.Second {
				t.Errorf("took %v", d)
			}
			if name != "many markers" && len(set.Rejections) == 0 {
				t.Error("accepted")
			}
			for _, r := range set.Rejections {
				for _, e := range r.Errors {
					if len(e.Message) > 2000 {
						t.Errorf("a message of %d bytes", len(e.Message))
					}
				}
			}
		})
	}
}

func manyFields(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "  field-%09d: x\n", i)
	}
	return b.String()
}
