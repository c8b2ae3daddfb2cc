package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// checker walks one object along the API's types and the table of fields. What
// it returns can be decoded without losing anything: fields that don't exist or
// have the wrong type are noted and left out, nulls too.
type checker struct {
	root     *yaml.Node
	nodeName string
	static   bool // the node's name is part of the pod's

	faults faults
	// unsupported are the values that no rule lets pass, to be compared with
	// what leaving them out would mean.
	unsupported []finding
	// taken are the values that have no effect here and leave the manifest.
	taken []finding
	// tokens are the names of the volumes by which a cluster hands its API
	// token to pods.
	tokens map[string]bool
}

// finding is a value that something has to be done about.
type finding struct {
	at   path
	rule *rule // nil: there is none
}

// spot is where the walk is. Once a rule has decided, nothing below is judged.
type spot struct {
	at      path
	decided bool
}

func (s spot) field(name string) spot { return spot{s.at.field(name), s.decided} }
func (s spot) item(i int) spot        { return spot{s.at.item(i), s.decided} }
func (s spot) key(k string) spot      { return spot{s.at.key(k), s.decided} }

// pod walks a pod.
func (c *checker) pod(object map[string]any) map[string]any {
	c.tokens = tokenVolumes(object)
	return c.structure(object, reflect.TypeFor[corev1.Pod](), spot{})
}

func (c *checker) fault(at path, reason, format string, args ...any) {
	if c.faults.full() {
		return
	}
	line, _ := locate(c.root, at)
	c.faults.add(pod.FieldError{Field: at.String(), Reason: reason, Message: fmt.Sprintf(format, args...), Line: line})
}

func (c *checker) structure(object map[string]any, t reflect.Type, s spot) map[string]any {
	schema := schemaOf(t)
	clean := make(map[string]any, len(object))
	for _, name := range slices.Sorted(maps.Keys(object)) {
		fieldType, known := schema[name]
		switch {
		case !known && c.faults.full():
		case !known:
			c.fault(s.at.field(name), causeInvalid, "unknown field %q%s", shorten(name), hint(schema, s.at.pattern(), name))
		case object[name] != nil:
			below := s.field(name)
			if v, ok := c.value(object[name], fieldType, c.judge(object[name], below)); ok {
				clean[name] = v
			}
		}
	}
	return clean
}

// judge looks a value up in the table.
func (c *checker) judge(v any, s spot) spot {
	if s.decided {
		return s
	}
	pattern := s.at.pattern()
	rule := fields.byPath[pattern]
	if _, inside := fields.interior[pattern]; rule == nil && inside {
		if c.isToken(v, pattern) {
			c.taken = append(c.taken, finding{s.at, &tokenRule})
			s.decided = true
		}
		return s
	}
	s.decided = true
	switch {
	case rule == nil || rule.verdict == refused:
		c.unsupported = append(c.unsupported, finding{s.at, rule})
	case rule.verdict == owned && significant(v) == nil:
		c.taken = append(c.taken, finding{s.at, &noOpRule})
	case rule.verdict == owned:
		c.taken = append(c.taken, finding{s.at, rule})
	case !rule.accepts(v):
		c.unsupported = append(c.unsupported, finding{s.at, rule})
	case rule.verdict == harmless:
		c.taken = append(c.taken, finding{s.at, rule})
	}
	return s
}

// value checks v against its type. It reports false when v can't be decoded.
func (c *checker) value(v any, t reflect.Type, s spot) (any, bool) {
	t = indirect(t)
	if decodesItself(t) {
		return v, c.scalar(v, t, s.at)
	}
	switch t.Kind() {
	case reflect.Struct:
		object, ok := v.(map[string]any)
		if !ok {
			c.fault(s.at, causeTypeInvalid, "must hold fields, and is %s; write them as \"name: value\"", describe(v))
			return nil, false
		}
		return c.structure(object, t, s), true
	case reflect.Map:
		object, ok := v.(map[string]any)
		if !ok {
			c.fault(s.at, causeTypeInvalid, "must hold pairs of key and value, and is %s; write them as \"key: value\"", describe(v))
			return nil, false
		}
		return c.mapping(object, t.Elem(), s), true
	case reflect.Slice:
		list, ok := v.([]any)
		if !ok {
			c.fault(s.at, causeTypeInvalid, `must be a list, and is %s; put "- " before each item`, describe(v))
			return nil, false
		}
		return c.list(list, t.Elem(), s), true
	default:
		return v, c.scalar(v, t, s.at)
	}
}

// mapping checks a map such as labels. A null is the empty string, as
// Kubernetes has it.
func (c *checker) mapping(object map[string]any, elem reflect.Type, s spot) map[string]any {
	clean := make(map[string]any, len(object))
	for _, k := range slices.Sorted(maps.Keys(object)) {
		v := object[k]
		if v == nil && elem.Kind() == reflect.String {
			v = ""
		}
		if v, ok := c.value(v, elem, c.judge(v, s.key(k))); ok {
			clean[k] = v
		}
	}
	return clean
}

// list checks a list. What can't be decoded leaves an empty item behind, so
// that the ones after it keep their index.
func (c *checker) list(list []any, elem reflect.Type, s spot) []any {
	clean := make([]any, len(list))
	for i, v := range list {
		at := s.item(i)
		var ok bool
		if v == nil {
			c.fault(at.at, causeRequired, "the item is empty; give it a value or remove it")
		} else {
			v, ok = c.value(v, elem, c.judge(v, at))
		}
		if !ok {
			v = reflect.Zero(indirect(elem)).Interface()
		}
		clean[i] = v
	}
	return clean
}

func (c *checker) scalar(v any, t reflect.Type, at path) bool {
	text, err := json.Marshal(v)
	if err == nil && v != nil {
		err = json.NewDecoder(bytes.NewReader(text)).Decode(reflect.New(t).Interface())
	}
	if err == nil && v != nil {
		return true
	}
	_, node := locate(c.root, at)
	c.fault(at, causeTypeInvalid, "%s", mistyped(v, t, node))
	return false
}

// mistyped says what is wrong with a scalar and how to write it.
func mistyped(v any, t reflect.Type, node *yaml.Node) string {
	written := fmt.Sprint(v)
	if node != nil && resolve(node).Kind == yaml.ScalarNode {
		written = resolve(node).Value
	}
	_, isText := v.(string)
	_, isNumber := v.(json.Number)
	switch {
	case t.Name() == "Quantity":
		return fmt.Sprintf("%q is not a quantity; write it like 500m, 1.5 or 64Mi", written)
	case t.Name() == "Time" || t.Name() == "MicroTime":
		return fmt.Sprintf("%q is not a time; write it like 2006-01-02T15:04:05Z", written)
	case t.Kind() == reflect.String && !isScalar(v):
		return fmt.Sprintf("must be text, and is %s; write it as one text", describe(v))
	case t.Kind() == reflect.String && !isText:
		return fmt.Sprintf("must be text, and is %s; quote it: %q", describe(v), written)
	case t.Kind() == reflect.Bool:
		return fmt.Sprintf("must be true or false, and is %s", describe(v))
	case isNumber:
		return fmt.Sprintf("%s is not a whole number of %d bits; write one", written, t.Bits())
	case isText && isWhole(written):
		return fmt.Sprintf("must be a whole number, and is text; write it without quotes: %s", written)
	default:
		return fmt.Sprintf("must be %s, and is %s", typeName(t), describe(v))
	}
}

func isScalar(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return false
	}
	return true
}

func isWhole(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

func typeName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int32, reflect.Int64:
		return "a whole number"
	case reflect.Struct:
		return "a " + t.Name()
	default:
		return "of another type"
	}
}

// describe names the type of a JSON value, and the value when it is short.
func describe(v any) string {
	switch v := v.(type) {
	case nil:
		return "empty"
	case bool:
		return "the boolean " + strconv.FormatBool(v)
	case json.Number:
		return "the number " + v.String()
	case string:
		if len(v) > 40 {
			return "text"
		}
		return fmt.Sprintf("the text %q", v)
	case []any:
		return "a list"
	default:
		return "a mapping of fields"
	}
}
