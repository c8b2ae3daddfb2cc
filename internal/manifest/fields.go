package manifest

import (
	"encoding/json"
	"slices"
	"strings"
)

//go:generate go run ./fieldsdoc ../../web/docs/fields.md

// verdict says what becomes of a field that Kubernetes has.
type verdict int

const (
	// honoured: it does what it does in Kubernetes.
	honoured verdict = iota
	// harmless: the values listed mean here what leaving it out means; it is
	// taken away. Other values are refused.
	harmless
	// owned: a cluster writes it; it is taken away, with a warning.
	owned
	// refused: it is not supported yet, as is every field that has no rule.
	// A rule is only needed to say more.
	refused
)

// rule is one line of the table.
type rule struct {
	// path has [] for any index. The rule holds for everything below.
	path    string
	verdict verdict
	// values, in JSON, are the only ones accepted when there are any.
	values []string
	// note goes into the documentation, and into the error when it is refused.
	note string
	// warning is given when a harmless value is taken away.
	warning string
}

// podRules is the table of fields outside containers. Every field of the API
// that is neither here nor in containerRules is refused, unless its value is
// the one that Kubernetes would give it anyway.
var podRules = []rule{
	{path: "apiVersion", values: []string{`"v1"`}},
	{path: "kind", values: []string{`"Pod"`}, note: "`List` and `PodList` of them too"},

	{path: "metadata.name", note: "pods from a directory or URL get `-<node name>` as suffix"},
	{path: "metadata.namespace"},
	{path: "metadata.labels"},
	{path: "metadata.annotations"},
	{path: "metadata.generateName", verdict: owned, note: "only beside `metadata.name`: applying again would make another pod"},
	{path: "metadata.uid", verdict: owned},
	{path: "metadata.resourceVersion", verdict: owned},
	{path: "metadata.generation", verdict: owned},
	{path: "metadata.creationTimestamp", verdict: owned},
	{path: "metadata.deletionTimestamp", verdict: owned},
	{path: "metadata.deletionGracePeriodSeconds", verdict: owned},
	{path: "metadata.selfLink", verdict: owned},
	{path: "metadata.managedFields", verdict: owned},
	{path: "metadata.ownerReferences", verdict: owned},
	{path: "status", verdict: owned},

	{path: "spec.restartPolicy"},
	{path: "spec.terminationGracePeriodSeconds"},
	{path: "spec.hostname"},
	{path: "spec.hostNetwork"},
	{path: "spec.hostPID"},
	{path: "spec.hostIPC"},
	{path: "spec.nodeName", note: "only this node's name"},
	{path: "spec.enableServiceLinks", values: []string{`true`, `false`}, note: "there are no services to link yet"},
	{path: "spec.automountServiceAccountToken", values: []string{`false`}, note: "there are no service accounts yet"},

	{path: "spec.volumes[].name"},
	{path: "spec.volumes[].emptyDir.medium", values: []string{`""`, `"Memory"`}},
	{path: "spec.volumes[].emptyDir.sizeLimit", note: "only with `medium: Memory`"},
	{path: "spec.volumes[].hostPath.path"},
	{path: "spec.volumes[].hostPath.type"},

	{path: "spec.serviceAccountName", verdict: harmless, values: []string{`"default"`}, warning: "there are no service accounts: no token is mounted"},
	{path: "spec.serviceAccount", verdict: harmless, values: []string{`"default"`}},
	{path: "spec.priority", verdict: harmless, values: []string{`0`}},
	{path: "spec.preemptionPolicy", verdict: harmless, values: []string{`"PreemptLowerPriority"`}},
	{path: "spec.shareProcessNamespace", verdict: harmless, values: []string{`false`}},
	{path: "spec.setHostnameAsFQDN", verdict: harmless, values: []string{`false`}},
	{path: "spec.hostUsers", verdict: harmless, values: []string{`true`}},
	{path: "spec.os", verdict: harmless, values: []string{`{"name":"linux"}`}},
	{path: "spec.securityContext.runAsNonRoot", verdict: harmless, values: []string{`false`}},
	{path: "spec.tolerations[]", verdict: harmless, values: []string{
		`{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300}`,
		`{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":300}`,
	}, note: "the two that every cluster adds"},
}

// containerRules is the table of fields of containers and init containers.
var containerRules = []rule{
	{path: "name"},
	{path: "image"},
	{path: "imagePullPolicy"},
	{path: "command"},
	{path: "args"},
	{path: "env[].name"},
	{path: "env[].value"},
	{path: "ports[].name"},
	{path: "ports[].containerPort"},
	{path: "ports[].hostPort"},
	{path: "ports[].hostIP"},
	{path: "ports[].protocol"},
	{path: "resources.limits[cpu]"},
	{path: "resources.limits[memory]"},
	{path: "resources.requests[cpu]"},
	{path: "resources.requests[memory]"},
	{path: "volumeMounts[].name"},
	{path: "volumeMounts[].mountPath"},
	{path: "volumeMounts[].readOnly"},
	{path: "volumeMounts[].mountPropagation", verdict: harmless, values: []string{`"None"`}},
	{path: "volumeMounts[].recursiveReadOnly", verdict: harmless, values: []string{`"Disabled"`}},
	{path: "securityContext.privileged", verdict: harmless, values: []string{`false`}},
	{path: "securityContext.allowPrivilegeEscalation", verdict: harmless, values: []string{`true`}},
	{path: "securityContext.readOnlyRootFilesystem", verdict: harmless, values: []string{`false`}},
	{path: "securityContext.runAsNonRoot", verdict: harmless, values: []string{`false`}},
}

// containerLists are where containerRules hold.
var containerLists = []string{"spec.containers[]", "spec.initContainers[]"}

// restartRules say more about a field that is often put in the wrong place.
var restartRules = []rule{
	{path: "spec.containers[].restartPolicy", verdict: refused, note: "a container has no policy of its own yet; the pod's is spec.restartPolicy"},
	{path: "spec.initContainers[].restartPolicy", verdict: refused, note: "sidecars come later; the pod's own policy is spec.restartPolicy"},
}

// table is the rules by path. interior has the paths that lead to a rule, and
// whether any rule below is for an honoured field.
type table struct {
	rules    []rule
	byPath   map[string]*rule
	interior map[string]bool
}

var fields = newTable()

func newTable() *table {
	t := &table{byPath: map[string]*rule{}, interior: map[string]bool{}}
	t.rules = slices.Concat(podRules, restartRules)
	for _, list := range containerLists {
		for _, r := range containerRules {
			r.path = list + "." + r.path
			t.rules = append(t.rules, r)
		}
	}
	for i := range t.rules {
		r := &t.rules[i]
		t.byPath[r.path] = r
		for end := range r.path {
			if strings.IndexByte(".[", r.path[end]) >= 0 {
				t.interior[r.path[:end]] = t.interior[r.path[:end]] || r.verdict == honoured
			}
		}
	}
	return t
}

// accepts reports whether v is among the rule's values.
func (r *rule) accepts(v any) bool {
	if len(r.values) == 0 {
		return true
	}
	text, err := json.Marshal(v)
	return err == nil && slices.Contains(r.values, string(text))
}
