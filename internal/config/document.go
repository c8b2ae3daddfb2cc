package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	kubelet "k8s.io/kubelet/config/v1beta1"
	kjson "sigs.k8s.io/json"
	sigsyaml "sigs.k8s.io/yaml"

	"podstead.io/podstead/internal/spelling"
)

// document is the text of a KubeletConfiguration.
type document struct {
	file string
	// root is the same text as a tree, which knows the lines.
	root   *yaml.Node
	fields map[string]json.RawMessage
}

// readDocument reads a file, whose errors name it, as far as YAML goes.
func readDocument(file string) (*document, error) {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	d := &document{file: file}
	asJSON, err := sigsyaml.YAMLToJSONStrict(content)
	if err == nil {
		d.root, err = onlyMapping(content)
	}
	if err == nil {
		err = json.Unmarshal(asJSON, &d.fields)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}

// onlyMapping is the tree of a text that is one mapping. Kubernetes' conversion
// would pass over further documents in silence.
func onlyMapping(content []byte) (*yaml.Node, error) {
	var root yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	if err := decoder.Decode(&root); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if len(root.Content) == 0 || root.Content[0].Kind != yaml.MappingNode {
		return nil, fmt.Errorf("it is no mapping: begin it with apiVersion: %s and kind: KubeletConfiguration", kubelet.SchemeGroupVersion)
	}
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
		return root.Content[0], nil
	case err != nil:
		return nil, err
	default:
		return nil, fmt.Errorf("line %d: a second document begins; only one is read", second.Line)
	}
}

// decode decodes strictly. Each field is decoded alone, so that everything wrong
// is found and each error has a place.
func (d *document) decode() (*kubelet.KubeletConfiguration, error) {
	decoded := &kubelet.KubeletConfiguration{}
	var wrong []error
	for _, name := range slices.Sorted(maps.Keys(d.fields)) {
		alone, err := json.Marshal(map[string]json.RawMessage{name: d.fields[name]})
		if err != nil {
			return nil, err
		}
		strict, err := kjson.UnmarshalStrict(alone, decoded)
		if err != nil {
			wrong = append(wrong, d.mismatch(name, alone, err))
		}
		for _, err := range strict {
			wrong = append(wrong, d.unknown(err))
		}
	}
	if want := kubelet.SchemeGroupVersion.String(); decoded.APIVersion != want || decoded.Kind != "KubeletConfiguration" {
		// What stands in a file of another kind is not wrong for that kind.
		return nil, fmt.Errorf("--config: %s: apiVersion is %q and kind is %q: give %s and KubeletConfiguration", d.file, decoded.APIVersion, decoded.Kind, want)
	}
	return decoded, errors.Join(wrong...)
}

// mismatch explains a value of the wrong type. Only the standard library's error
// tells which.
func (d *document) mismatch(field string, alone []byte, err error) error {
	var mismatch *json.UnmarshalTypeError
	if errors.As(json.Unmarshal(alone, &kubelet.KubeletConfiguration{}), &mismatch) {
		if mismatch.Field != "" {
			field = mismatch.Field
		}
		err = fmt.Errorf("it has a value of type %s, and takes a %s", mismatch.Value, mismatch.Type.Kind())
	}
	return fmt.Errorf("%s: %w", d.place(field), err)
}

// unknown explains what strict decoding found, which is no more than fields that
// nobody knows: a field given twice is no YAML.
func (d *document) unknown(err error) error {
	var fault kjson.FieldError
	if !errors.As(err, &fault) {
		return fmt.Errorf("%s: %w", d.file, err)
	}
	path := fault.FieldPath()
	parent, name := "", path
	if i := strings.LastIndex(path, "."); i >= 0 {
		parent, name = path[:i+1], path[i+1:]
	}
	if near := spelling.Nearest(name, fieldsOf(parent)); near != "" {
		return fmt.Errorf("%s: there is no such field; did you mean %s%s?", d.place(path), parent, near)
	}
	return fmt.Errorf("%s: there is no such field", d.place(path))
}

// place is where a field stands: its file, line and path.
func (d *document) place(path string) string {
	line, node := 0, d.root
	for _, name := range strings.FieldsFunc(path, func(r rune) bool { return r == '.' || r == '[' || r == ']' }) {
		var at int
		if at, node = step(node, name); node == nil {
			break
		}
		line = at
	}
	if line == 0 {
		return d.file + ": " + path
	}
	return d.file + ":" + strconv.Itoa(line) + ": " + path
}

// step finds what a mapping has under a name, or a list at an index, and its
// line.
func step(node *yaml.Node, name string) (int, *yaml.Node) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			if node.Content[i].Value == name {
				return node.Content[i].Line, node.Content[i+1]
			}
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(name); err == nil && i >= 0 && i < len(node.Content) {
			return node.Content[i].Line, node.Content[i]
		}
	}
	return 0, nil
}

// set lists the fields that the document sets, sorted, null not counting. Fields
// of logging are told apart, since some of them are known here.
func (d *document) set() []string {
	fields := maps.Clone(d.fields)
	logging := map[string]json.RawMessage{}
	if nested, ok := fields["logging"]; ok && json.Unmarshal(nested, &logging) == nil {
		delete(fields, "logging")
	}
	for name, value := range logging {
		fields["logging."+name] = value
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	maps.DeleteFunc(fields, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	return slices.Sorted(maps.Keys(fields))
}

// fieldsOf lists the fields of what stands at a path of KubeletConfiguration, which
// ends with a dot or is empty.
func fieldsOf(parent string) []string {
	at := reflect.TypeFor[kubelet.KubeletConfiguration]()
	for _, name := range strings.FieldsFunc(parent, func(r rune) bool { return r == '.' }) {
		name, _, _ = strings.Cut(name, "[")
		if at = jsonFields(at)[name]; at == nil {
			return nil
		}
	}
	return slices.Sorted(maps.Keys(jsonFields(at)))
}

// jsonFields are the fields that JSON has for a type, or for the elements of one
// that is a list or a pointer.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice {
		t = t.Elem()
	}
	fields := map[string]reflect.Type{}
	if t.Kind() != reflect.Struct {
		return fields
	}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields[name] = f.Type
		}
	}
	return fields
}
