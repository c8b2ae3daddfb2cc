package manifest

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// FieldsDoc is the page on which fields of a pod are supported, in Markdown,
// made of the table of fields and the types of the API.
func FieldsDoc() []byte {
	var b bytes.Buffer
	b.WriteString(`<!-- Generated from internal/manifest/fields.go by "go generate"; edit it there. -->

# Fields of a pod

Podstead takes the fields of Kubernetes' Pod that it can honour and refuses the
others with their path, so that nothing is ignored in silence. A field that is
not supported is accepted all the same when its value is the one that Kubernetes
would give it anyway, as in manifests exported from a cluster. Everything said
about ` + "`spec.containers[]` holds for `spec.initContainers[]`" + ` too.

## Supported

`)
	for _, r := range documented(honoured) {
		docLine(&b, r.path, r.remark())
	}
	b.WriteString(`
## Accepted with one value

These values say what leaving the field out says here. Others are refused.

`)
	for _, r := range documented(harmless) {
		docLine(&b, r.path, r.remark())
	}
	b.WriteString(`
## Left out

A cluster sets these. They are accepted, with a warning, and have no effect.

`)
	for _, r := range documented(owned) {
		docLine(&b, r.path, r.remark())
	}
	b.WriteString(`
## Not supported yet

`)
	unsupportedFields(&b, reflect.TypeFor[corev1.Pod](), nil)
	return b.Bytes()
}

func docLine(b *bytes.Buffer, field, remark string) {
	if remark != "" {
		remark = ": " + remark
	}
	fmt.Fprintf(b, "- `%s`%s\n", field, remark)
}

// documented is the rules of one verdict; those of init containers are the
// same as those of containers.
func documented(v verdict) []rule {
	var rules []rule
	for _, r := range fields.rules {
		if r.verdict == v && !strings.HasPrefix(r.path, "spec.initContainers[].") {
			rules = append(rules, r)
		}
	}
	return rules
}

func (r *rule) remark() string {
	var parts []string
	if len(r.values) > 0 {
		parts = append(parts, "`"+strings.Join(r.values, "` or `")+"`")
	}
	if r.note != "" {
		parts = append(parts, r.note)
	}
	return strings.Join(parts, "; ")
}

// unsupportedFields lists the fields of the API that have no rule, not those
// within them.
func unsupportedFields(b *bytes.Buffer, t reflect.Type, at path) {
	schema := schemaOf(t)
	for _, name := range slices.Sorted(maps.Keys(schema)) {
		below := at.field(name)
		inner := indirect(schema[name])
		if inner.Kind() == reflect.Slice {
			inner, below = indirect(inner.Elem()), below.item(0)
		}
		pattern := below.pattern()
		_, inside := fields.interior[pattern]
		rule := fields.byPath[pattern]
		listRule := fields.byPath[strings.TrimSuffix(pattern, "[]")]
		switch {
		case pattern == "spec.initContainers[]":
			docLine(b, pattern+".restartPolicy", fields.byPath[pattern+".restartPolicy"].note)
		case rule != nil && rule.verdict == refused:
			docLine(b, pattern, rule.note)
		case rule != nil || listRule != nil:
		case inside && inner.Kind() == reflect.Struct:
			unsupportedFields(b, inner, below)
		case inside:
			docLine(b, pattern, "resources other than `cpu` and `memory`")
		default:
			docLine(b, strings.TrimSuffix(pattern, "[]"), "")
		}
	}
}
