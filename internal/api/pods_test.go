package api_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/pod"
)

func TestPodsAreShownWhole(t *testing.T) {
	s := newStore(t)
	h := agentOn(t, s)
	drop(t, s, "web.yaml", manifestOf("web"))
	post(t, h, "/manifests?unit=mine.yaml&namespace=prod", manifestOf("a"))
	key := pod.Key{Namespace: "default", Name: "web-" + node}
	d := run(t, s, key)

	list := decode[corev1.PodList](t, h.call(t, "GET", "/pods", ""), http.StatusOK)
	if list.Kind != "PodList" || list.APIVersion != "v1" || !slices.Equal(names(list.Items), []string{"default/" + key.Name, "prod/a"}) {
		t.Fatalf("%s of %v", list.Kind, names(list.Items))
	}
	one := decode[corev1.Pod](t, h.call(t, "GET", "/pods/default/"+key.Name, ""), http.StatusOK)
	if one.Kind != "Pod" || one.UID != d.UID || one.Generation != 1 || one.CreationTimestamp.IsZero() || one.Spec.NodeName != node {
		t.Errorf("metadata %+v, node %q", one.ObjectMeta, one.Spec.NodeName)
	}
	if one.Spec.RestartPolicy != corev1.RestartPolicyAlways {
		t.Error("the pod is not defaulted")
	}
	if one.Status.Phase != corev1.PodRunning || one.Status.PodIP != "10.88.0.9" {
		t.Errorf("status %+v", one.Status)
	}
	if a := one.Annotations; a["kubernetes.io/config.source"] != "file" || a["podstead.io/source"] != directory.ID || a["podstead.io/manifest"] != "web.yaml" {
		t.Errorf("annotations %v", a)
	}
	prod := decode[corev1.PodList](t, h.call(t, "GET", "/pods?namespace=prod", ""), http.StatusOK)
	if len(prod.Items) != 1 || prod.Items[0].Annotations["kubernetes.io/config.source"] != "api" || prod.Items[0].Status.Phase != corev1.PodPending {
		t.Errorf("namespace prod has %+v", prod.Items)
	}
	wantStatus(t, h.call(t, "GET", "/pods/default/a", ""), http.StatusNotFound, metav1.StatusReasonNotFound)
	empty := h.call(t, "GET", "/pods?namespace=empty", "")
	if !strings.Contains(empty.Body.String(), `"items":[]`) {
		t.Errorf("no pods are %s", empty.Body)
	}
}

func TestDeletedPodShowsItsDeadline(t *testing.T) {
	s := newStore(t)
	h := agentOn(t, s)
	post(t, h, "/manifests", manifestOf("a"))
	h.call(t, "DELETE", "/manifests/default/a?gracePeriodSeconds=7", "")
	p := decode[corev1.Pod](t, h.call(t, "GET", "/pods/default/a", ""), http.StatusOK)
	if p.DeletionTimestamp == nil || *p.DeletionGracePeriodSeconds != 7 {
		t.Errorf("deletion %v, %v", p.DeletionTimestamp, p.DeletionGracePeriodSeconds)
	}
}

// Columns are Kubernetes' own.
func TestPodsAsTable(t *testing.T) {
	s := newStore(t)
	h := agentOn(t, s)
	post(t, h, "/manifests", manifestOf("a"))
	run(t, s, pod.Key{Namespace: "default", Name: "a"})
	table := decode[metav1.Table](t, h.call(t, "GET", "/pods", "",
		"Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"), http.StatusOK)
	if table.Kind != "Table" || table.APIVersion != "meta.k8s.io/v1" || len(table.Rows) != 1 {
		t.Fatalf("%+v", table)
	}
	cells := map[string]any{}
	for i, c := range table.ColumnDefinitions {
		cells[c.Name] = table.Rows[0].Cells[i]
	}
	if cells["Name"] != "a" || cells["Ready"] != "1/1" || cells["Status"] != "Running" || cells["IP"] != "10.88.0.9" || cells["Node"] != node {
		t.Errorf("cells %v", cells)
	}
	var meta metav1.PartialObjectMetadata
	if err := json.Unmarshal(table.Rows[0].Object.Raw, &meta); err != nil || meta.Namespace != "default" || meta.Kind != "PartialObjectMetadata" {
		t.Errorf("the row is of %s: %v", table.Rows[0].Object.Raw, err)
	}
	for _, accept := range []string{"application/json", "", "application/json;as=Table;v=v1beta1;g=meta.k8s.io", "*/*"} {
		list := decode[corev1.PodList](t, h.call(t, "GET", "/pods", "", "Accept", accept), http.StatusOK)
		if list.Kind != "PodList" {
			t.Errorf("%q gets a %s", accept, list.Kind)
		}
	}
}
