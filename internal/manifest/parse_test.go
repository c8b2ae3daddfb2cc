package manifest_test

import (
	"fmt"
	"os"
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
