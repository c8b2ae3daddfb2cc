package manifest

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync"
)

// The Go types of the API are the schema: their JSON tags name the fields.

var schemas sync.Map // of reflect.Type to map[string]reflect.Type

// schemaOf is the fields of a struct by their names in JSON.
func schemaOf(t reflect.Type) map[string]reflect.Type {
	if known, ok := schemas.Load(t); ok {
		return known.(map[string]reflect.Type)
	}
	schema := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported():
		case name == "" && f.Anonymous:
			for inner, innerType := range schemaOf(f.Type) {
				schema[inner] = innerType
			}
		default:
			schema[name] = f.Type
		}
	}
	schemas.Store(t, schema)
	return schema
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// decodesItself reports types such as resource.Quantity, whose JSON is not what
// their Go fields are.
func decodesItself(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(unmarshaler)
}

// indirect is the type that a pointer type points to.
func indirect(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}
