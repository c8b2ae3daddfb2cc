package api

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/wire"
)

// Pods reads the desired pods, each as of one moment.
type Pods interface {
	// Pods lists the desired pods of a namespace (empty: all), those being
	// deleted included, by namespace and name.
	Pods(ctx context.Context, namespace string) ([]pod.Desired, error)
	// Pod is the wanted pod of that name, or the one being deleted when no other
	// has taken its place. NotFound when there is neither.
	Pod(ctx context.Context, key pod.Key) (pod.Desired, error)
}

// podRoutes shows pods as kubelet's /pods does, and one by its name.
// ?namespace= narrows the list.
func podRoutes(r chi.Router, store Pods, node string) {
	r.Get(wire.PathPods, func(w http.ResponseWriter, r *http.Request) {
		desired, err := store.Pods(r.Context(), r.URL.Query().Get("namespace"))
		if err != nil {
			writeError(w, r, err)
			return
		}
		list := corev1.PodList{TypeMeta: metav1.TypeMeta{Kind: "PodList", APIVersion: "v1"}, Items: make([]corev1.Pod, 0, len(desired))}
		for _, d := range desired {
			list.Items = append(list.Items, *podObject(d, node))
		}
		if wantsTable(r) {
			answerTable(w, r, &list)
			return
		}
		writeJSON(w, http.StatusOK, list)
	})
	r.Get(wire.PathPods+"/{namespace}/{name}", func(w http.ResponseWriter, r *http.Request) {
		d, err := store.Pod(r.Context(), keyOf(r))
		if err != nil {
			writeError(w, r, namePod(err, keyOf(r)))
			return
		}
		writeJSON(w, http.StatusOK, podObject(d, node))
	})
}

func keyOf(r *http.Request) pod.Key {
	return pod.Key{Namespace: chi.URLParam(r, "namespace"), Name: chi.URLParam(r, "name")}
}

// namePod puts a missing pod in Kubernetes' words.
func namePod(err error, key pod.Key) error {
	if pod.ClassOf(err) == pod.NotFound {
		return apierrors.NewNotFound(pods, key.Name)
	}
	return err
}

// podObject is the pod as Kubernetes would show it: the defaulted manifest with
// its metadata and status, and where it came from as kubelet annotates it.
func podObject(d pod.Desired, node string) *corev1.Pod {
	p := d.Pod.DeepCopy()
	p.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	p.UID = d.UID
	p.Generation = d.Generation
	p.CreationTimestamp = metav1.NewTime(d.CreatedAt)
	if p.Spec.NodeName == "" {
		p.Spec.NodeName = node
	}
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[wire.AnnotationConfigSource] = configSource(d.Source.Kind)
	p.Annotations[wire.AnnotationSource] = d.Source.ID
	if d.Place != "" {
		p.Annotations[wire.AnnotationManifest] = d.Place
	}
	if del := d.Deletion; del != nil {
		at := metav1.NewTime(del.RequestedAt.Add(del.Grace))
		seconds := int64(del.Grace / time.Second)
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &seconds
	}
	p.Status = *d.Status.DeepCopy()
	if p.Status.Phase == "" {
		p.Status.Phase = corev1.PodPending
	}
	return p
}

// configSource is kubelet's name for a kind of source
// (k8s.io/kubernetes/pkg/kubelet/types: FileSource, HTTPSource, ApiserverSource).
func configSource(k pod.SourceKind) string {
	switch k {
	case pod.SourceDirectory:
		return "file"
	case pod.SourceURL:
		return "http"
	default:
		return "api"
	}
}
