package manifest_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

// badManifest is a manifest that is refused, and what is said about it.
type badManifest struct {
	name, text string
	limits     manifest.Limits
	// said has a line for each pod that is accepted all the same, "+ KEY", and
	// then one for each error: "PLACE LINE REASON FIELD: MESSAGE". PLACE is what
	// stands behind the unit's name, or a dot.
	said string
}

// corpus is every bad manifest that there is a test for. Those that can be read
// as text are in files by theme, as "-- NAME --", what is said, "-- NAME.yaml --"
// or "-- NAME.json --", and the manifest; the others are generated.
func corpus(t testing.TB) []badManifest {
	t.Helper()
	files, err := filepath.Glob("testdata/bad/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	marker := regexp.MustCompile(`(?m)^-- (.+) --\n`)
	var all []badManifest
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		at := marker.FindAllSubmatchIndex(text, -1)
		section := func(i int) (name, body string) {
			end := len(text)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			return string(text[at[i][2]:at[i][3]]), string(text[at[i][1]:end])
		}
		for i := 0; i+1 < len(at); i += 2 {
			name, said := section(i)
			manifestName, manifest := section(i + 1)
			if manifestName != name+".yaml" && manifestName != name+".json" {
				t.Fatalf("%s: %q is followed by %q", file, name, manifestName)
			}
			all = append(all, badManifest{name: name, text: manifest, said: said})
		}
	}
	return append(all, generated()...)
}

// describe is what is said about a manifest.
func describe(set pod.SourceSet) string {
	var b strings.Builder
	for _, s := range set.Pods {
		fmt.Fprintf(&b, "+ %s\n", s.Key())
	}
	for _, r := range set.Rejections {
		place := strings.TrimPrefix(r.Place, "web")
		if place == "" {
			place = "."
		}
		for _, e := range r.Errors {
			fmt.Fprintf(&b, "%s %d %s %s: %s\n", place, e.Line, e.Reason, e.Field, e.Message)
		}
	}
	return b.String()
}

func (m badManifest) parse() pod.SourceSet {
	p := manifest.Parser{NodeName: parser.NodeName, Limits: m.limits}
	return p.Parse("web", []byte(m.text), pod.SourceDirectory)
}

// remedy is in every message that says what to do: an order, or what the value
// must be.
var remedy = regexp.MustCompile(`\b(add|correct|did you mean|flatten|give|leave|name an|put|quote|remove|rename|save|set|split|start|use|write)\b|it belongs at|a pod starts with|\bmust\b|\bcan only be\b|supported values|only Pod|this is not a text file|spec\.(restartPolicy|volumes has)`)

// Each bad manifest is refused with the field that is wrong, its line and what to
// do (podman#12756, 27712, 25081: such fields were ignored in silence).
func TestBadManifests(t *testing.T) {
	all := corpus(t)
	if len(all) < 150 {
		t.Errorf("%d bad manifests", len(all))
	}
	t.Logf("%d bad manifests", len(all))
	for _, m := range all {
		t.Run(m.name, func(t *testing.T) {
			set := m.parse()
			if got := describe(set); got != m.said {
				t.Errorf("it is said:\n%s\nwant:\n%s", got, m.said)
			}
			if len(set.Rejections) == 0 || !slices.Equal(set.Incomplete, []string{"web"}) {
				t.Errorf("%d rejections, incomplete %v", len(set.Rejections), set.Incomplete)
			}
			whole := strings.HasSuffix(m.name, "as a whole")
			for _, r := range set.Rejections {
				for _, e := range r.Errors {
					if e.Field == "" && r.Reason != pod.RejectedSyntax && !whole {
						t.Errorf("%s: no field: %s", r.Place, e.Message)
					}
					if e.Line == 0 && !whole {
						t.Errorf("%s: no line: %s", r.Place, e.Message)
					}
					if !remedy.MatchString(e.Message) {
						t.Errorf("%s: no remedy: %s", r.Place, e.Message)
					}
				}
			}
		})
	}
}

// What is said about a manifest, less values and numbers, tells its fault: two
// manifests that have the same are one fault in two spellings.
func TestBadManifestsAreAllDifferent(t *testing.T) {
	values := regexp.MustCompile(`(?m)^\S+ [0-9]+ |^\+.*\n|"[^"]*"|[0-9]+|\[[^]]*\]`)
	faults := map[string]string{}
	names := map[string]bool{}
	for _, m := range corpus(t) {
		fault := values.ReplaceAllString(m.said, "")
		if before, known := faults[fault]; known {
			t.Errorf("%q is %q under another spelling: %s", m.name, before, fault)
		}
		if names[m.name] {
			t.Errorf("two are called %q", m.name)
		}
		faults[fault], names[m.name] = m.name, true
	}
}

// generated are the manifests whose fault is bytes or size.
func generated() []badManifest {
	good := podWith("", "")
	const (
		utf16  = ". 1 FieldValueInvalid : the text is UTF-16 or binary; save it as UTF-8\n"
		nested = ". 1 FieldValueInvalid : nested more than 100 levels deep; flatten it\n"
	)
	return []badManifest{
		{name: "nothing, as a whole", text: "", said: ". 0 FieldValueInvalid : there is nothing in it; to remove its pods, remove it or leave a comment in it\n"},
		{name: "UTF-16 with a mark", text: "\xff\xfe" + utf16le(good), said: utf16},
		{name: "Latin 1", text: "apiVersion: v1\n# caf\xe9\n", said: ". 2 FieldValueInvalid : byte 0xe9 is not UTF-8; save the text as UTF-8\n"},
		{name: "a binary file", text: "\x7fELF\x02\x01\x01\x00", said: ". 1 FieldValueInvalid : control character 0x02: this is not a text file; save it as one, or quote the character\n"},
		{name: "too large, as a whole", limits: manifest.Limits{UnitBytes: 50}, text: good, said: ". 0 FieldValueInvalid : larger than 50 bytes; split it up\n"},
		{name: "a pod too large, as a whole", limits: manifest.Limits{PodBytes: 100}, text: good, said: ". 1 FieldValueInvalid : the pod is larger than 100 bytes; leave some of it out\n"},
		{name: "too many documents, as a whole", limits: manifest.Limits{Documents: 2}, text: "a: b\n---\na: b\n---\na: b\n", said: ". 0 FieldValueInvalid : more than 2 documents; split it up\n"},
		{name: "too many values", limits: manifest.Limits{Documents: 1}, text: "- [" + strings.Repeat("a, ", 400) + "]\n", said: ". 1 FieldValueInvalid : more than 300 values; split it up\n"},
		{name: "nested too deep", text: strings.Repeat("[", 200) + strings.Repeat("]", 200), said: nested},
		{name: "nested too deep by its aliases", text: deepAliases(), said: ". 4 FieldValueInvalid : with its aliases expanded the document is nested more than 200 levels deep; flatten it\n"},
		{name: "a billion laughs", text: laughs(), said: ". 7 FieldValueInvalid : with its aliases expanded the document is larger than 8388608 bytes; split it up\n"},
	}
}

// deepAliases is lists of lists, each of the one before.
func deepAliases() string {
	var b bytes.Buffer
	inner := "x"
	for i := range 9 {
		fmt.Fprintf(&b, "a%d: &a%d %s%s%s\n", i, i, strings.Repeat("[", 50), inner, strings.Repeat("]", 50))
		inner = fmt.Sprintf("*a%d", i)
	}
	return b.String()
}

// laughs is lists of ten, each ten times the one before.
func laughs() string {
	text := "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := 1; i < 12; i++ {
		text += fmt.Sprintf("a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return text
}
