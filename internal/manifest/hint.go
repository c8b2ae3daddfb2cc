package manifest

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"podstead.io/podstead/internal/spelling"
)

// maxHinted is the length, in bytes, of the longest unknown field for which
// others are tried.
const maxHinted = 64

// hint says, as the end of a sentence, what an unknown field may have been
// meant to be: another spelling, or a field of another place.
func hint(schema map[string]reflect.Type, parent, name string) string {
	if name == "" || len(name) > maxHinted {
		return "; remove it"
	}
	known := slices.Sorted(maps.Keys(schema))
	for _, k := range known {
		if strings.EqualFold(k, name) {
			return fmt.Sprintf("; write %q: capitals matter", k)
		}
	}
	if place := elsewhere(parent, name); place != "" {
		return "; it belongs at " + place
	}
	if near := spelling.Nearest(name, known); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	if outer, inner, dotted := strings.Cut(name, "."); dotted && schema[outer] != nil {
		return fmt.Sprintf("; write %q in a line of its own, indented below %q", inner, outer)
	}
	return "; remove it"
}

// elsewhere is the honoured field of that name nearest to where it was put.
func elsewhere(parent, name string) string {
	var places []string
	for _, r := range fields.rules {
		at := r.path
		if r.verdict != honoured {
			continue
		}
		if strings.HasSuffix(at, "["+name+"]") { // a key, such as that of a resource
			places = append(places, at)
			continue
		}
		// The field may be an inner one, such as spec.containers.
		if i := strings.Index(at+".", "."+name); i >= 0 {
			rest := at[i+1+len(name):]
			if rest == "" || rest[0] == '.' || rest[0] == '[' {
				places = append(places, at[:i+1+len(name)])
			}
		}
	}
	if len(places) == 0 {
		return ""
	}
	return slices.MinFunc(places, func(a, b string) int {
		return cmp.Or(cmp.Compare(steps(parent, a), steps(parent, b)), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
	})
}

// steps is how far apart two places in the tree of fields are.
func steps(a, b string) int {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	common := 0
	for common < min(len(as), len(bs)) && as[common] == bs[common] {
		common++
	}
	return len(as) + len(bs) - 2*common
}
