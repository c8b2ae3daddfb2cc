package manifest

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// unitParser takes one unit apart into objects and collects what became of
// them.
type unitParser struct {
	name     string
	kind     pod.SourceKind
	nodeName string
	limits   Limits
	// namespace is that of pods that name none.
	namespace string

	set     pod.SourceSet
	places  map[pod.Key]string // who has a key already
	objects int
}

// object is one pod, or what should be one, and where it stands.
type object struct {
	value map[string]any
	root  *yaml.Node
	place string
}

// parse reads the whole unit. What it returns is wrong with the unit as a
// whole.
func (u *unitParser) parse(data []byte) *pod.FieldError {
	if len(data) > u.limits.UnitBytes {
		return &pod.FieldError{Reason: causeInvalid, Message: fmt.Sprintf("larger than %d bytes; split it up", u.limits.UnitBytes)}
	}
	text, fault := decodeText(data)
	if fault != nil {
		return fault
	}
	chunks := split(text)
	if len(chunks) > u.limits.Documents {
		return u.tooMany()
	}
	number := 0
	for _, c := range chunks {
		docs, faults := decode(c, u.limits)
		if len(faults) > 0 {
			number++
			u.reject(u.place(number, ""), pod.Key{}, syntaxOrInvalid(faults), faults...)
			continue
		}
		for _, doc := range docs {
			if doc.value == nil {
				continue
			}
			number++
			if fault := u.document(doc, number); fault != nil {
				return fault
			}
		}
	}
	return nil
}

func (u *unitParser) tooMany() *pod.FieldError {
	u.set = pod.SourceSet{}
	return &pod.FieldError{Reason: causeInvalid, Message: fmt.Sprintf("more than %d documents; split it up", u.limits.Documents)}
}

// syntaxOrInvalid tells a document that is not YAML from one with bad keys.
func syntaxOrInvalid(faults []pod.FieldError) pod.RejectionReason {
	for _, f := range faults {
		if f.Field == "" {
			return pod.RejectedSyntax
		}
	}
	return pod.RejectedInvalid
}

// place is where a document is in its unit: the first has the unit's own name.
func (u *unitParser) place(number int, within string) string {
	if number == 1 && within == "" {
		return u.name
	}
	return fmt.Sprintf("%s#%d%s", u.name, number, within)
}

func (u *unitParser) document(doc document, number int) *pod.FieldError {
	value, ok := doc.value.(map[string]any)
	if !ok {
		u.reject(u.place(number, ""), pod.Key{}, pod.RejectedSyntax, pod.FieldError{
			Reason: causeTypeInvalid, Line: doc.root.Line,
			Message: "not a manifest but " + describe(doc.value) + "; " + startOfPod,
		})
		return nil
	}
	whole := object{value: value, root: doc.root, place: u.place(number, "")}
	kind, _ := value["kind"].(string)
	if kind != "List" && kind != "PodList" {
		return u.object(whole)
	}
	return u.list(whole, kind, number)
}

const startOfPod = "a pod starts with apiVersion: v1 and kind: Pod"

// listFields are what a list has besides its items. Its metadata is a server's.
var listFields = map[string]bool{"apiVersion": true, "kind": true, "metadata": true, "items": true}

func (u *unitParser) list(list object, kind string, number int) *pod.FieldError {
	var faults faults
	add := func(at path, reason, message string) {
		line, _ := locate(list.root, at)
		faults.add(pod.FieldError{Field: at.String(), Reason: reason, Message: message, Line: line})
	}
	if v := list.value["apiVersion"]; v != "v1" {
		add(path{}.field("apiVersion"), causeNotSupported, "the apiVersion of a list is v1; write that")
	}
	for name := range list.value {
		if !listFields[name] {
			add(path{}.field(name), causeInvalid, fmt.Sprintf("unknown field %q; a list has items: remove it or correct it", shorten(name)))
		}
	}
	items, ok := list.value["items"].([]any)
	if !ok && list.value["items"] != nil {
		add(path{}.field("items"), causeTypeInvalid, "must be a list, and is "+describe(list.value["items"])+`; put "- " before each item`)
	}
	if len(faults) > 0 {
		u.reject(list.place, pod.Key{}, pod.RejectedInvalid, faults.sorted()...)
		return nil
	}
	for i, item := range items {
		at := path{}.field("items").item(i)
		place := u.place(number, "."+at.String())
		line, node := locate(list.root, at)
		value, ok := item.(map[string]any)
		if !ok || node == nil {
			u.reject(place, pod.Key{}, pod.RejectedInvalid, pod.FieldError{
				Field: at.String(), Reason: causeTypeInvalid, Line: line, Message: "not a pod but " + describe(item) + "; " + startOfPod,
			})
			continue
		}
		// The items of a PodList need not say what they are.
		if kind == "PodList" && value["kind"] == nil && value["apiVersion"] == nil {
			value["kind"], value["apiVersion"] = "Pod", "v1"
		}
		if fault := u.object(object{value: value, root: resolve(node), place: place}); fault != nil {
			return fault
		}
	}
	return nil
}

// object takes one pod, or rejects it.
func (u *unitParser) object(o object) *pod.FieldError {
	if u.objects++; u.objects > u.limits.Documents {
		return u.tooMany()
	}
	key := u.nameObject(o.value)
	if fault := wrongKind(o); fault != nil {
		u.reject(o.place, key, pod.RejectedInvalid, *fault)
		return nil
	}
	s, faults := u.build(o)
	if len(faults) > 0 {
		u.reject(o.place, key, pod.RejectedInvalid, faults.sorted()...)
		return nil
	}
	s.Unit, s.Place = u.name, o.place
	if owner, taken := u.places[s.Key()]; taken {
		r := conflict(s, owner)
		line, _ := locate(o.root, parsePath(r.Errors[0].Field))
		r.Errors[0].Line = line
		u.set.Rejections = append(u.set.Rejections, r)
		u.set.Incomplete = []string{u.name}
		return nil
	}
	u.places[s.Key()] = o.place
	u.set.Pods = append(u.set.Pods, s)
	return nil
}

// nameObject gives the pod its final name and namespace, and returns them as
// far as they can be told.
func (u *unitParser) nameObject(value map[string]any) pod.Key {
	if value["metadata"] == nil {
		value["metadata"] = map[string]any{}
	}
	meta, ok := value["metadata"].(map[string]any)
	if !ok {
		return pod.Key{}
	}
	name, _ := meta["name"].(string)
	if name != "" && u.kind.Static() {
		name += "-" + strings.ToLower(u.nodeName)
		meta["name"] = name
	}
	if meta["namespace"] == nil || meta["namespace"] == "" {
		meta["namespace"] = u.namespace
	}
	namespace, _ := meta["namespace"].(string)
	return pod.Key{Namespace: namespace, Name: name}
}

// wrongKind refuses whatever is not a v1 Pod.
func wrongKind(o object) *pod.FieldError {
	kind, apiVersion := o.value["kind"], o.value["apiVersion"]
	fault := func(name, reason, message string) *pod.FieldError {
		line, _ := locate(o.root, path{}.field(name))
		return &pod.FieldError{Field: name, Reason: reason, Message: message, Line: line}
	}
	text, isText := kind.(string)
	switch {
	case kind == nil || kind == "":
		return fault("kind", causeRequired, "set kind: Pod")
	case !isText:
		return fault("kind", causeTypeInvalid, "must be text, and is "+describe(kind)+"; write kind: Pod")
	case strings.EqualFold(text, "Pod") && text != "Pod":
		return fault("kind", causeNotSupported, fmt.Sprintf("kind %s: write Pod; capitals matter", shorten(text)))
	case text == "List" || text == "PodList":
		return fault("kind", causeNotSupported, "a list inside a list is not supported; put its items into the outer one")
	case text != "Pod":
		return fault("kind", causeNotSupported, fmt.Sprintf("kind %s is not supported yet; only Pod, List and PodList are", shorten(text)))
	case apiVersion == nil || apiVersion == "":
		return fault("apiVersion", causeRequired, "set apiVersion: v1")
	case apiVersion != corev1.SchemeGroupVersion.String():
		return fault("apiVersion", causeNotSupported, fmt.Sprintf("the apiVersion of a Pod is v1, not %s; write that", shorten(fmt.Sprint(apiVersion))))
	}
	return nil
}

func (u *unitParser) reject(place string, key pod.Key, reason pod.RejectionReason, errors ...pod.FieldError) {
	u.set.Rejections = append(u.set.Rejections, pod.Rejection{Unit: u.name, Place: place, Key: key, Reason: reason, Errors: errors})
	u.set.Incomplete = []string{u.name}
}

// maxShown bounds, in bytes, what a message shows of a value.
const maxShown = 300

func shorten(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return strings.ToValidUTF8(s[:maxShown], "") + "…"
}
