package manifest_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
)

var parser = manifest.Parser{NodeName: "Node-A"}

// podWith is a pod with the lines given in its spec; container lines are
// indented by four blanks.
func podWith(spec, container string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
%s  containers:
  - name: c
    image: busybox
%s`, spec, container)
}

func parse(t *testing.T, text string) pod.SourceSet {
	t.Helper()
	return parser.Parse("web.yaml", []byte(text), pod.SourceDirectory)
}

// accepted is the only pod of a unit that has no fault.
func accepted(t *testing.T, text string) pod.Submission {
	t.Helper()
	set := parse(t, text)
	if len(set.Rejections) > 0 || len(set.Incomplete) > 0 {
		t.Fatalf("rejected: %+v", set.Rejections)
	}
	if len(set.Pods) != 1 {
		t.Fatalf("%d pods, want 1", len(set.Pods))
	}
	return set.Pods[0]
}

func TestAccepts(t *testing.T) {
	tests := []struct{ name, text string }{
		{"the least", podWith("", "")},
		{"command and args", podWith("", "    command: [/bin/sh]\n    args: [-c, 'echo $(A)']\n")},
		{"environment", podWith("", "    env:\n    - name: A\n      value: \"1\"\n    - name: EMPTY\n    - {name: a.b-c, value: 'x'}\n")},
		{"ports", podWith("", "    ports:\n    - containerPort: 80\n      hostPort: 8080\n      hostIP: 127.0.0.1\n      protocol: UDP\n      name: dns\n")},
		{"one host port on two protocols", podWith("", "    ports: [{containerPort: 53, hostPort: 53}, {containerPort: 53, hostPort: 53, protocol: UDP}]\n")},
		{"resources", podWith("", "    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {cpu: 1, memory: 128M}}\n")},
		{"a fractional number of CPUs", podWith("", "    resources: {limits: {cpu: 0.5}}\n")},
		{"a limit of zero", podWith("", "    resources: {limits: {memory: 0}}\n")},
		{"emptyDir on disk", podWith("  volumes: [{name: v, emptyDir: {}}]\n", "    volumeMounts: [{name: v, mountPath: /v, readOnly: true}]\n")},
		{"a volume that says nothing", podWith("  volumes:\n  - name: v\n    emptyDir:\n", "    volumeMounts: [{name: v, mountPath: /v}]\n")},
		{"emptyDir in memory", podWith("  volumes: [{name: v, emptyDir: {medium: Memory, sizeLimit: 64Mi}}]\n", "")},
		{"a disk limit of zero", podWith("  volumes: [{name: v, emptyDir: {sizeLimit: 0}}]\n", "")},
		{"hostPath", podWith("  volumes: [{name: v, hostPath: {path: /srv}}, {name: w, hostPath: {path: /dev/null, type: CharDevice}}]\n", "")},
		{"host settings", podWith("  hostNetwork: true\n  hostPID: true\n  hostIPC: true\n", "    ports: [{containerPort: 80}]\n")},
		{"restart policy, grace, host name", podWith("  restartPolicy: OnFailure\n  terminationGracePeriodSeconds: 0\n  hostname: www\n", "")},
		{"init containers", podWith("  initContainers: [{name: i, image: busybox, command: [\"true\"]}]\n", "")},
		{"pull policy", podWith("", "    imagePullPolicy: Never\n")},
		{"this node's name", podWith("  nodeName: Node-A\n", "")},
		{"labels and annotations", strings.Replace(podWith("", ""), "  name: web\n", "  name: web\n  labels: {app: web, 'example.com/x': ''}\n  annotations:\n    note:\n", 1)},
		{"fields with their defaults", podWith("  dnsPolicy: ClusterFirst\n  schedulerName: default-scheduler\n  securityContext: {}\n  serviceAccountName: default\n  enableServiceLinks: true\n  tolerations: []\n  affinity: {}\n  imagePullSecrets: []\n", "    terminationMessagePath: /dev/termination-log\n    terminationMessagePolicy: File\n    stdin: false\n    envFrom: []\n    lifecycle: {}\n")},
		{"fields that ask for what is the case", podWith("  automountServiceAccountToken: false\n  enableServiceLinks: false\n  shareProcessNamespace: false\n  hostUsers: true\n  os: {name: linux}\n  priority: 0\n", "    securityContext: {privileged: false}\n")},
		{"an empty status", podWith("", "") + "status: {}\n"},
		{"a null creation time", strings.Replace(podWith("", ""), "  name: web\n", "  name: web\n  creationTimestamp: null\n", 1)},
		{"anchors and merges", podWith("", "    resources:\n      limits: &l {cpu: 1, memory: 64Mi}\n      requests: {<<: *l, cpu: 500m}\n")},
		{"an image with a digest", strings.Replace(podWith("", ""), "busybox", "quay.io/x/y:1@sha256:"+strings.Repeat("0", 64), 1)},
		{"JSON indented with tabs", "{\n\t\"apiVersion\": \"v1\", \"kind\": \"Pod\",\n\t\"metadata\": {\"name\": \"web\", \"annotations\": {\"k\": \"\\ud83d\\ude00\"}},\n\t\"spec\": {\"containers\": [{\"name\": \"c\", \"image\": \"busybox\"}]}\n}\n"},
		{"JSON under a marker", "---\n{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"web\"},\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"busybox\"}]}}\n# end\n"},
		{"YAML in flow style", "{apiVersion: v1, kind: Pod, metadata: {name: web}, spec: {containers: [{name: c, image: busybox}]}}"},
		{"a byte order mark", "\xef\xbb\xbf" + podWith("", "")},
		{"lines that end in CR LF", strings.ReplaceAll("---\n"+podWith("", ""), "\n", "\r\n")},
		{"a directive and comments", "# licence\n---\n# nothing\n---\n%YAML 1.1\n---\n" + podWith("", "") + "...\n# end\n---\n"},
		{"a name of 246 characters and the suffix", strings.Replace(podWith("", ""), "name: web", "name: "+strings.Repeat("a", 246), 1)},
		{"a list of one", "apiVersion: v1\nkind: List\nmetadata: {resourceVersion: ''}\nitems:\n- " + strings.ReplaceAll(podWith("", ""), "\n", "\n  ")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := accepted(t, tt.text)
			if !strings.HasSuffix(s.Pod.Name, "-node-a") {
				t.Errorf("name is %q", s.Pod.Name)
			}
			if s.Pod.Namespace != "default" {
				t.Errorf("namespace is %q", s.Pod.Namespace)
			}
		})
	}
}

func TestRefuses(t *testing.T) {
	long := strings.Repeat("a", 247)
	tests := []struct {
		name, text string
		want       []string // "field line reason"
		message    string   // part of the first error's
	}{
		// Structure.
		{"an unknown field", podWith("  restartPolcy: Never\n", ""), []string{"spec.restartPolcy 6 FieldValueInvalid"}, `did you mean "restartPolicy"`},
		{"wrong capitals", podWith("", "    Command: [a]\n"), []string{"spec.containers[0].Command 9 FieldValueInvalid"}, `write "command"`},
		{"a field of the pod on a container", podWith("", "    hostNetwork: true\n"), []string{"spec.containers[0].hostNetwork 9 FieldValueInvalid"}, "belongs at spec.hostNetwork"},
		{"a field of a container on the pod", podWith("  volumeMounts: []\n", ""), []string{"spec.volumeMounts 6 FieldValueInvalid"}, "belongs at spec.containers[].volumeMounts"},
		{"a spec at the top", podWith("", "") + "restartPolicy: Never\n", []string{"restartPolicy 9 FieldValueInvalid"}, "belongs at spec.restartPolicy"},
		{"a restart policy on a container", podWith("", "    restartPolicy: Never\n"), []string{"spec.containers[0].restartPolicy 9 FieldValueForbidden"}, "spec.restartPolicy"},
		{"a sidecar", podWith("  initContainers: [{name: i, image: i, restartPolicy: Always}]\n", ""), []string{"spec.initContainers[0].restartPolicy 6 FieldValueForbidden"}, "sidecars"},
		{"a key twice", podWith("  hostname: a\n  hostname: b\n", ""), []string{"spec.hostname 7 FieldValueDuplicate"}, "first on line 6"},
		{"a key that is a boolean", strings.Replace(podWith("", ""), "  name: web\n", "  name: web\n  labels: {y: a}\n", 1), []string{"metadata.labels.y 5 FieldValueTypeInvalid"}, `quote it: "y"`},
		{"a key that is a number", strings.Replace(podWith("", ""), "  name: web\n", "  name: web\n  labels: {1: a}\n", 1), []string{"metadata.labels.1 5 FieldValueTypeInvalid"}, `quote it: "1"`},

		// Types.
		{"a number for text", podWith("", "    env: [{name: A, value: 1.50}]\n"), []string{"spec.containers[0].env[0].value 9 FieldValueTypeInvalid"}, `quote it: "1.50"`},
		{"a boolean for text", podWith("", "    args:\n    - a\n    - yes\n"), []string{"spec.containers[0].args[1] 11 FieldValueTypeInvalid"}, `quote it: "yes"`},
		{"text for a number", podWith("", "    ports: [{containerPort: \"80\"}]\n"), []string{"spec.containers[0].ports[0].containerPort 9 FieldValueTypeInvalid"}, "without quotes: 80"},
		{"text for a boolean", podWith("  hostPID: \"true\"\n", ""), []string{"spec.hostPID 6 FieldValueTypeInvalid"}, "must be true or false"},
		{"a number too large", podWith("", "    ports: [{containerPort: 99999999999}]\n"), []string{"spec.containers[0].ports[0].containerPort 9 FieldValueTypeInvalid"}, "range"},
		{"a fraction for a whole number", podWith("  terminationGracePeriodSeconds: 1.5\n", ""), []string{"spec.terminationGracePeriodSeconds 6 FieldValueTypeInvalid"}, "whole number"},
		{"text for a list", podWith("", "    command: /bin/sh\n"), []string{"spec.containers[0].command 9 FieldValueTypeInvalid"}, `put "- "`},
		{"a list for fields", podWith("  securityContext: []\n", ""), []string{"spec.securityContext 6 FieldValueTypeInvalid"}, "a list"},
		{"text for fields", podWith("", "  - web\n"), []string{"spec.containers[1] 9 FieldValueTypeInvalid"}, `the text "web"`},
		{"an empty item", podWith("", "    args:\n    -\n"), []string{"spec.containers[0].args[0] 10 FieldValueRequired"}, "empty"},
		{"labels in a list", strings.Replace(podWith("", ""), "  name: web\n", "  name: web\n  labels: [a]\n", 1), []string{"metadata.labels 5 FieldValueTypeInvalid"}, "key and value"},

		// Quantities.
		{"not a quantity", podWith("", "    resources: {limits: {memory: 64MB}}\n"), []string{"spec.containers[0].resources.limits[memory] 9 FieldValueTypeInvalid"}, "64Mi"},
		{"an empty quantity", podWith("", "    resources: {limits: {memory: }}\n"), []string{"spec.containers[0].resources.limits[memory] 9 FieldValueTypeInvalid"}, ""},
		{"a negative quantity", podWith("", "    resources: {limits: {cpu: -1}}\n"), []string{"spec.containers[0].resources.limits[cpu] 9 FieldValueInvalid"}, "greater than or equal to 0"},
		{"a request above its limit", podWith("", "    resources: {limits: {memory: 1Mi}, requests: {memory: 2Mi}}\n"), []string{"spec.containers[0].resources.requests 9 FieldValueInvalid"}, "memory limit of 1Mi"},
		{"a resource that is not supported", podWith("", "    resources: {limits: {ephemeral-storage: 1Gi}}\n"), []string{"spec.containers[0].resources.limits[ephemeral-storage] 9 FieldValueForbidden"}, "not supported yet"},
		{"an unknown resource", podWith("", "    resources: {limits: {ram: 1Gi}}\n"), []string{"spec.containers[0].resources.limits[ram] 9 FieldValueForbidden"}, "not supported yet"},

		// Names.
		{"no name", strings.Replace(podWith("", ""), "  name: web\n", "  labels: {a: b}\n", 1), []string{"metadata.name 3 FieldValueRequired"}, "name"},
		{"a generated name", strings.Replace(podWith("", ""), "  name: web\n", "  generateName: web-\n", 1), []string{"metadata.name 3 FieldValueRequired"}, "applying again"},
		{"a name in capitals", strings.Replace(podWith("", ""), "name: web", "name: Web", 1), []string{"metadata.name 4 FieldValueInvalid"}, "lower case"},
		{"a name too long with its suffix", strings.Replace(podWith("", ""), "name: web", "name: "+long, 1), []string{"metadata.name 4 FieldValueInvalid"}, `before "-node-a"`},
		{"a name that is a number", strings.Replace(podWith("", ""), "name: web", "name: 1", 1), []string{"metadata.name 4 FieldValueTypeInvalid"}, `quote it: "1"`},
		{"a bad namespace", strings.Replace(podWith("", ""), "  name: web\n", "  name: web\n  namespace: a.b\n", 1), []string{"metadata.namespace 5 FieldValueInvalid"}, "a.b"},
		{"a bad label", strings.Replace(podWith("", ""), "  name: web\n", "  name: web\n  labels: {a: 'b c'}\n", 1), []string{"metadata.labels 5 FieldValueInvalid"}, "b c"},
		{"another node", podWith("  nodeName: node-b\n", ""), []string{"spec.nodeName 6 FieldValueInvalid"}, `this node is "Node-A"`},
		{"a host name that is none", podWith("  hostname: a_b\n", ""), []string{"spec.hostname 6 FieldValueInvalid"}, "a_b"},

		// Containers.
		{"no containers", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec: {}\n", []string{"spec.containers 4 FieldValueRequired"}, "add it"},
		{"no spec", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\n", []string{"spec.containers 1 FieldValueRequired"}, ""},
		{"no image", strings.Replace(podWith("", ""), "    image: busybox\n", "", 1), []string{"spec.containers[0].image 7 FieldValueRequired"}, "add it"},
		{"an image name in capitals", strings.Replace(podWith("", ""), "busybox", "BusyBox", 1), []string{"spec.containers[0].image 8 FieldValueInvalid"}, "lowercase"},
		{"an image name with a blank", strings.Replace(podWith("", ""), "busybox", "' busybox'", 1), []string{"spec.containers[0].image 8 FieldValueInvalid"}, "invalid reference format"},
		{"a container name twice", podWith("", "  - {name: c, image: busybox}\n"), []string{"spec.containers[1].name 9 FieldValueDuplicate"}, "each must be used once"},
		{"a container named as an init container", podWith("  initContainers: [{name: c, image: busybox}]\n", ""), []string{"spec.initContainers[0].name 6 FieldValueDuplicate"}, ""},
		{"a pull policy that is none", podWith("", "    imagePullPolicy: Sometimes\n"), []string{"spec.containers[0].imagePullPolicy 9 FieldValueNotSupported"}, `"IfNotPresent"`},
		{"a restart policy that is none", podWith("  restartPolicy: always\n", ""), []string{"spec.restartPolicy 6 FieldValueNotSupported"}, `"Always"`},
		{"a variable without name", podWith("", "    env: [{value: a}]\n"), []string{"spec.containers[0].env[0].name 9 FieldValueRequired"}, ""},
		{"a variable with = in its name", podWith("", "    env: [{name: 'a=b', value: a}]\n"), []string{"spec.containers[0].env[0].name 9 FieldValueInvalid"}, ""},
		{"a port out of range", podWith("", "    ports: [{containerPort: 70000}]\n"), []string{"spec.containers[0].ports[0].containerPort 9 FieldValueInvalid"}, "65535"},
		{"a host port twice", podWith("", "    ports: [{containerPort: 80, hostPort: 80}]\n  - name: d\n    image: busybox\n    ports: [{containerPort: 81, hostPort: 80}]\n"), []string{"spec.containers[1].ports[0].hostPort 12 FieldValueDuplicate"}, ""},
		{"a host port that differs under host network", podWith("  hostNetwork: true\n", "    ports: [{containerPort: 80, hostPort: 81}]\n"), []string{"spec.containers[0].ports[0].hostPort 10 FieldValueInvalid"}, "hostNetwork"},
		{"a host address that is none", podWith("", "    ports: [{containerPort: 80, hostPort: 80, hostIP: localhost}]\n"), []string{"spec.containers[0].ports[0].hostIP 9 FieldValueInvalid"}, "IP"},
		{"a protocol that is none", podWith("", "    ports: [{containerPort: 80, protocol: tcp}]\n"), []string{"spec.containers[0].ports[0].protocol 9 FieldValueNotSupported"}, `"TCP"`},

		// Volumes.
		{"a mount of no volume", podWith("", "    volumeMounts:\n    - {mountPath: /v, name: v}\n"), []string{"spec.containers[0].volumeMounts[0].name 10 FieldValueNotFound"}, "no volume of that name"},
		{"a mount without path", podWith("  volumes: [{name: v}]\n", "    volumeMounts: [{name: v}]\n"), []string{"spec.containers[0].volumeMounts[0].mountPath 10 FieldValueRequired"}, "add it"},
		{"a mount path twice", podWith("  volumes: [{name: v}]\n", "    volumeMounts: [{name: v, mountPath: /a}, {name: v, mountPath: /a}]\n"), []string{"spec.containers[0].volumeMounts[1].mountPath 10 FieldValueInvalid"}, "unique"},
		{"a relative mount path", podWith("  volumes: [{name: v}]\n", "    volumeMounts: [{name: v, mountPath: a}]\n"), []string{"spec.containers[0].volumeMounts[0].mountPath 10 FieldValueInvalid"}, "absolute"},
		{"a relative host path", podWith("  volumes: [{name: v, hostPath: {path: a}}]\n", ""), []string{"spec.volumes[0].hostPath.path 6 FieldValueInvalid"}, "absolute"},
		{"a sub-path", podWith("  volumes: [{name: v}]\n", "    volumeMounts: [{name: v, mountPath: /a, subPath: b}]\n"), []string{"spec.containers[0].volumeMounts[0].subPath 10 FieldValueForbidden"}, "not supported yet"},
		{"a volume name twice", podWith("  volumes: [{name: v}, {name: v}]\n", ""), []string{"spec.volumes[1].name 6 FieldValueDuplicate"}, ""},
		{"a volume of two kinds", podWith("  volumes: [{name: v, emptyDir: {}, hostPath: {path: /a}}]\n", ""), []string{"spec.volumes[0].hostPath 6 FieldValueForbidden"}, ""},
		{"a limit on disk", podWith("  volumes: [{name: v, emptyDir: {sizeLimit: 1Gi}}]\n", ""), []string{"spec.volumes[0].emptyDir.sizeLimit 6 FieldValueForbidden"}, "medium: Memory"},
		{"huge pages", podWith("  volumes: [{name: v, emptyDir: {medium: HugePages}}]\n", ""), []string{"spec.volumes[0].emptyDir.medium 6 FieldValueNotSupported"}, `"Memory"`},
		{"a host path without path", podWith("  volumes: [{name: v, hostPath: {}}]\n", ""), []string{"spec.volumes[0].hostPath.path 6 FieldValueRequired"}, ""},
		{"a host path that climbs", podWith("  volumes: [{name: v, hostPath: {path: /a/../b}}]\n", ""), []string{"spec.volumes[0].hostPath.path 6 FieldValueInvalid"}, ".."},
		{"a type of host path that is none", podWith("  volumes: [{name: v, hostPath: {path: /a, type: Dir}}]\n", ""), []string{"spec.volumes[0].hostPath.type 6 FieldValueNotSupported"}, "DirectoryOrCreate"},
		{"a volume from a ConfigMap", podWith("  volumes:\n  - name: v\n    configMap: {name: x}\n", ""), []string{"spec.volumes[0].configMap 8 FieldValueForbidden"}, "not supported yet"},
		{"a projected volume that is not the cluster's", podWith("  volumes: [{name: kube-api-access-x, projected: {sources: [{downwardAPI: {}}]}}]\n", ""), []string{"spec.volumes[0].projected 6 FieldValueForbidden"}, ""},

		// Fields that come later.
		{"a probe", podWith("", "    livenessProbe: {tcpSocket: {port: 80}}\n"), []string{"spec.containers[0].livenessProbe 9 FieldValueForbidden"}, "not supported yet"},
		{"a hook", podWith("", "    lifecycle: {preStop: {exec: {command: [a]}}}\n"), []string{"spec.containers[0].lifecycle 9 FieldValueForbidden"}, ""},
		{"a variable from a field", podWith("", "    env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]\n"), []string{"spec.containers[0].env[0].valueFrom 9 FieldValueForbidden"}, ""},
		{"variables from a Secret", podWith("", "    envFrom: [{secretRef: {name: s}}]\n"), []string{"spec.containers[0].envFrom 9 FieldValueForbidden"}, ""},
		{"a working directory", podWith("", "    workingDir: /a\n"), []string{"spec.containers[0].workingDir 9 FieldValueForbidden"}, ""},
		{"a terminal", podWith("", "    tty: true\n"), []string{"spec.containers[0].tty 9 FieldValueForbidden"}, ""},
		{"a privileged container", podWith("", "    securityContext:\n      privileged: true\n"), []string{"spec.containers[0].securityContext.privileged 10 FieldValueNotSupported"}, "only be false"},
		{"a user", podWith("  securityContext: {runAsUser: 0}\n", ""), []string{"spec.securityContext.runAsUser 6 FieldValueForbidden"}, ""},
		{"another DNS policy", podWith("  dnsPolicy: Default\n", ""), []string{"spec.dnsPolicy 6 FieldValueForbidden"}, ""},
		{"a service account", podWith("  serviceAccountName: robot\n", ""), []string{"spec.serviceAccountName 6 FieldValueNotSupported"}, `only be "default"`},
		{"a token asked for", podWith("  automountServiceAccountToken: true\n", ""), []string{"spec.automountServiceAccountToken 6 FieldValueNotSupported"}, "only be false"},
		{"a toleration", podWith("  tolerations: [{operator: Exists}]\n", ""), []string{"spec.tolerations[0] 6 FieldValueNotSupported"}, ""},
		{"a deadline", podWith("  activeDeadlineSeconds: 5\n", ""), []string{"spec.activeDeadlineSeconds 6 FieldValueForbidden"}, ""},
		{"a finalizer", strings.Replace(podWith("", ""), "  name: web\n", "  name: web\n  finalizers: [a.b/c]\n", 1), []string{"metadata.finalizers 5 FieldValueForbidden"}, ""},
		{"an AppArmor profile", strings.Replace(podWith("", ""), "  name: web\n", "  name: web\n  annotations: {container.apparmor.security.beta.kubernetes.io/c: unconfined}\n", 1), []string{"metadata.annotations[container.apparmor.security.beta.kubernetes.io/c] 5 FieldValueForbidden"}, "AppArmor"},
		{"an unknown field of a field that comes later", podWith("", "    livenessProbe: {tcpsocket: {port: 80}}\n"), []string{"spec.containers[0].livenessProbe 9 FieldValueForbidden", "spec.containers[0].livenessProbe.tcpsocket 9 FieldValueInvalid"}, ""},

		// Kinds.
		{"no kind", "apiVersion: v1\nmetadata: {name: a}\n", []string{"kind 1 FieldValueRequired"}, "kind: Pod"},
		{"no version", "kind: Pod\nmetadata: {name: a}\n", []string{"apiVersion 1 FieldValueRequired"}, "apiVersion: v1"},
		{"another version", strings.Replace(podWith("", ""), "v1", "apps/v1", 1), []string{"apiVersion 1 FieldValueNotSupported"}, "is v1, not apps/v1"},
		{"another kind", "apiVersion: v1\nkind: ConfigMap\n", []string{"kind 2 FieldValueNotSupported"}, "ConfigMap is not supported yet"},
		{"a kind in small letters", strings.Replace(podWith("", ""), "Pod", "pod", 1), []string{"kind 2 FieldValueNotSupported"}, "capitals matter"},
		{"a list of another version", "apiVersion: v2\nkind: List\nitems: []\n", []string{"apiVersion 1 FieldValueNotSupported"}, ""},
		{"a list with a field too many", "apiVersion: v1\nkind: PodList\nitem: []\n", []string{"item 3 FieldValueInvalid"}, "items"},
		{"items that are no list", "apiVersion: v1\nkind: PodList\nitems: {}\n", []string{"items 3 FieldValueTypeInvalid"}, "must be a list"},

		// Errors are shown together, in the order of the file.
		{"several", podWith("  hostNetwork: maybe\n", "    livenessProbe: {}\n    imagePullPolicy: x\n"), []string{
			"spec.hostNetwork 6 FieldValueTypeInvalid", "spec.containers[0].livenessProbe 10 FieldValueForbidden", "spec.containers[0].imagePullPolicy 11 FieldValueNotSupported",
		}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			set := parse(t, tt.text)
			if len(set.Pods) != 0 || len(set.Rejections) != 1 {
				t.Fatalf("%d pods and %d rejections, want 0 and 1: %+v", len(set.Pods), len(set.Rejections), set.Rejections)
			}
			if !slices.Equal(set.Incomplete, []string{"web.yaml"}) {
				t.Errorf("incomplete: %v", set.Incomplete)
			}
			r := set.Rejections[0]
			if r.Reason != pod.RejectedInvalid {
				t.Errorf("reason %s", r.Reason)
			}
			var got []string
			for _, e := range r.Errors {
				got = append(got, fmt.Sprintf("%s %d %s", e.Field, e.Line, e.Reason))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("errors %q\nwant %q\n%+v", got, tt.want, r.Errors)
			}
			if !strings.Contains(r.Errors[0].Message, tt.message) {
				t.Errorf("message %q has no %q", r.Errors[0].Message, tt.message)
			}
		})
	}
}

func TestExportedManifest(t *testing.T) {
	text, err := os.ReadFile("testdata/exported.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := manifest.Parser{NodeName: "node-a"}
	set := p.Parse("web.yaml", text, pod.SourceHTTP)
	if len(set.Rejections) > 0 {
		t.Fatalf("rejected: %+v", set.Rejections)
	}
	s := set.Pods[0]
	want := `{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"web\",\"namespace\":\"shop\"}}\n"},"labels":{"app":"web","pod-template-hash":"7d4b9c6f5d"},"name":"web-7d4b9c6f5d-x2k4q","namespace":"shop"},` +
		`"spec":{"containers":[{"image":"nginx:1.27","imagePullPolicy":"IfNotPresent","name":"nginx","ports":[{"containerPort":80,"protocol":"TCP"}],"resources":{},"volumeMounts":[{"mountPath":"/cache","name":"cache"}]}],"enableServiceLinks":true,"restartPolicy":"Always","terminationGracePeriodSeconds":30,"volumes":[{"emptyDir":{},"name":"cache"}]}}`
	if string(s.Manifest) != want {
		t.Errorf("canonical form\n%s\nwant\n%s", s.Manifest, want)
	}
	warnings := strings.Join(s.Warnings, "\n")
	for _, part := range []string{"metadata.uid", "metadata.ownerReferences", "status", "API token", "service accounts"} {
		if !strings.Contains(warnings, part) {
			t.Errorf("no warning about %s in %q", part, s.Warnings)
		}
	}
}

func TestNoWarningForWhatIsEmpty(t *testing.T) {
	s := accepted(t, strings.Replace(podWith("", ""), "  name: web\n", "  name: web\n  creationTimestamp: null\n", 1)+"status: {}\n")
	if len(s.Warnings) > 0 {
		t.Errorf("warnings %q", s.Warnings)
	}
}

func TestKubernetesWarningsAreKept(t *testing.T) {
	s := accepted(t, podWith("", "    env: [{name: A, value: '1'}, {name: A, value: '2'}]\n"))
	if len(s.Warnings) != 1 || !strings.Contains(s.Warnings[0], "spec.containers[0].env[1]") {
		t.Errorf("warnings %q", s.Warnings)
	}
}
