package manifest

import (
	"bytes"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

func TestFieldsDocIsUpToDate(t *testing.T) {
	page, err := os.ReadFile("../../web/docs/fields.md")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(page, FieldsDoc()) {
		t.Error("web/docs/fields.md is not what the table says; run scripts/generate")
	}
}

// A rule whose path the API does not have would never be met.
func TestEveryRuleIsOfAFieldOfTheAPI(t *testing.T) {
	for _, r := range fields.rules {
		typ := reflect.TypeFor[corev1.Pod]()
		for _, part := range strings.Split(r.path, ".") {
			name, key, isMap := strings.Cut(part, "[")
			next, ok := schemaOf(typ)[name]
			if !ok {
				t.Errorf("%s: no field %q in %s", r.path, name, typ)
				break
			}
			typ = indirect(next)
			if isMap {
				if isList := key == "]"; isList != (typ.Kind() == reflect.Slice) {
					t.Errorf("%s: %q is a %s", r.path, name, typ.Kind())
				}
				typ = indirect(typ.Elem())
			}
		}
		for _, v := range r.values {
			if _, err := jsonValue([]byte(v)); err != nil {
				t.Errorf("%s: value %s is not JSON: %v", r.path, strconv.Quote(v), err)
			}
		}
	}
}
