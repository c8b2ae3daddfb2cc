package api

import (
	"fmt"
	"mime"
	"net/http"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1conv "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/printers"
	"k8s.io/kubernetes/pkg/printers/internalversion"
)

// wantsTable reports whether the client asks for columns, as kubectl does, with
// Accept: application/json;as=Table;v=v1;g=meta.k8s.io.
func wantsTable(r *http.Request) bool {
	for accept := range strings.SplitSeq(r.Header.Get("Accept"), ",") {
		media, params, err := mime.ParseMediaType(accept)
		if err == nil && media == "application/json" && params["as"] == "Table" && params["g"] == metav1.GroupName && params["v"] == "v1" {
			return true
		}
	}
	return false
}

// columns are Kubernetes' own, so that kubectl and podstead print the same.
var columns = sync.OnceValue(func() *printers.HumanReadableGenerator {
	return printers.NewTableGenerator().With(internalversion.AddHandlers)
})

// answerTable answers the pods as a Table whose rows carry the metadata of their
// pods.
func answerTable(w http.ResponseWriter, r *http.Request, list *corev1.PodList) {
	table, err := podTable(list)
	if err != nil {
		writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, table)
}

func podTable(list *corev1.PodList) (*metav1.Table, error) {
	var internal core.PodList
	if err := corev1conv.Convert_v1_PodList_To_core_PodList(list, &internal, nil); err != nil {
		return nil, fmt.Errorf("convert pods: %w", err)
	}
	table, err := columns().GenerateTable(&internal, printers.GenerateOptions{Wide: true})
	if err != nil {
		return nil, fmt.Errorf("print pods: %w", err)
	}
	table.TypeMeta = metav1.TypeMeta{Kind: "Table", APIVersion: metav1.SchemeGroupVersion.String()}
	for i := range table.Rows {
		m := meta.AsPartialObjectMetadata(&list.Items[i])
		m.TypeMeta = metav1.TypeMeta{Kind: "PartialObjectMetadata", APIVersion: metav1.SchemeGroupVersion.String()}
		table.Rows[i].Object = runtime.RawExtension{Object: m}
	}
	return table, nil
}
