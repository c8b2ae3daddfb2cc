package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// TestUnsupportedFields are refused with their paths, never dropped.
func TestUnsupportedFields(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	tests := []struct{ field, pod, container string }{
		{"spec.containers[0].livenessProbe", "", "livenessProbe: {httpGet: {path: /, port: 80}}"},
		{"spec.containers[0].lifecycle", "", "lifecycle: {preStop: {exec: {command: [sync]}}}"},
		{"spec.containers[0].securityContext.privileged", "", "securityContext: {privileged: true}"},
		{"spec.containers[0].securityContext.capabilities", "", "securityContext: {capabilities: {add: [NET_ADMIN]}}"},
		{"spec.containers[0].envFrom", "", "envFrom: [{configMapRef: {name: settings}}]"},
		{"spec.containers[0].env[0].valueFrom", "", "env: [{name: A, valueFrom: {fieldRef: {fieldPath: metadata.name}}}]"},
		{"spec.containers[0].workingDir", "", "workingDir: /srv"},
		{"spec.containers[0].restartPolicy", "", "restartPolicy: Always"},
		{"spec.containers[0].volumeMounts[0].subPath", "volumes: [{name: v, emptyDir: {}}]", "volumeMounts: [{name: v, mountPath: /v, subPath: x}]"},
		{"spec.containers[0].resources.limits[nvidia.com/gpu]", "", "resources: {limits: {nvidia.com/gpu: 1}}"},
		{"spec.volumes[0].configMap", "volumes: [{name: v, configMap: {name: settings}}]", ""},
		{"spec.volumes[0].emptyDir.sizeLimit", "volumes: [{name: v, emptyDir: {sizeLimit: 1Mi}}]", ""},
		{"spec.securityContext.runAsUser", "securityContext: {runAsUser: 1000}", ""},
		{"spec.affinity", "affinity: {podAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: z}]}}", ""},
		{"spec.nodeSelector", "nodeSelector: {disk: ssd}", ""},
		{"spec.hostAliases", "hostAliases: [{ip: 127.0.0.1, hostnames: [a]}]", ""},
		{"spec.dnsConfig", "dnsConfig: {nameservers: [10.0.0.1]}", ""},
		{"spec.shareProcessNamespace", "shareProcessNamespace: true", ""},
		{"spec.topologySpreadConstraints", "topologySpreadConstraints: [{maxSkew: 1, topologyKey: z, whenUnsatisfiable: DoNotSchedule}]", ""},
		{"spec.imagePullSecrets", "imagePullSecrets: [{name: login}]", ""},
		// Not Kubernetes' at all, and misplaced.
		{"spec.containers[0].imagePullPolice", "", "imagePullPolice: Never"},
		{"spec.replicas", "replicas: 3", ""},
		{"restartPolicy", "", ""}, // at the top of the document
	}
	for _, test := range tests {
		t.Run(test.field, func(t *testing.T) {
			extra := ""
			if test.pod != "" {
				extra = "  " + test.pod + "\n"
			}
			text := fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec:\n%s  containers: [{name: a, image: busybox, %s}]\n", extra, test.container)
			if test.pod == "" && test.container == "" {
				text += test.field + ": Never\n"
			}
			got := a.submit(t, []byte(text))
			wantStatus(t, got, http.StatusUnprocessableEntity)
			fields := causes(t, got)
			if !slices.ContainsFunc(fields, func(f string) bool {
				return f == test.field || strings.HasPrefix(f, test.field+".") || strings.HasPrefix(f, test.field+"[")
			}) {
				t.Errorf("%s is not among the causes %v", test.field, fields)
			}
		})
	}
	if alive := a.containers(t, ""); len(alive) > 0 {
		t.Errorf("a refused pod runs: %v", alive)
	}
}
