// Package wire holds what travels between the agent's HTTP interface and the
// client where Kubernetes has no type for it. Whatever Kubernetes has a type
// for (PodList, Table, Status, version Info) travels as that.
//
// It owns no goroutine and does no I/O. Fields are only ever added: a client and
// an agent of neighbouring versions understand each other.
package wire

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
)

// DefaultSocket is where the agent listens and the client looks.
const DefaultSocket = "/run/podstead/podstead.sock"

// SocketVariable is the environment variable that names another socket.
const SocketVariable = "PODSTEAD_SOCKET"

// Paths of the agent's own resources.
const (
	PathAgent     = "/agent"
	PathHealth    = "/healthz"
	PathReady     = "/readyz"
	PathManifests = "/manifests"
	PathPods      = "/pods"
	PathSQL       = "/sql"
	PathVersion   = "/version"
)

// APIVersion is the apiVersion of the objects here that have a kind.
const APIVersion = "podstead.io/v1"

// Annotations that the agent adds to the pods it shows. ConfigSource is
// kubelet's: file, http (a URL) or api (submitted over HTTP).
const (
	AnnotationConfigSource = "kubernetes.io/config.source"
	AnnotationSource       = "podstead.io/source"   // the owner's ID, "directory:/etc/podstead/manifests"
	AnnotationManifest     = "podstead.io/manifest" // the place within the source, "web.yaml#2"
)

// Agent says where a running agent keeps and finds things.
type Agent struct {
	Node          string   `json:"node"` // the node's name, which static pods carry as a suffix
	PID           int      `json:"pid"`
	RootDir       string   `json:"rootDir"`
	PodmanURL     string   `json:"podmanURL"` // unix:///run/podman/podman.sock
	ManifestPaths []string `json:"manifestPaths,omitempty"`
	ManifestURLs  []string `json:"manifestURLs,omitempty"`
}

// Version answers GET /version: Kubernetes' version.Info, whose gitVersion is
// that of the Kubernetes whose rules apply with Podstead's behind it, and what
// else the agent was built from.
type Version struct {
	version.Info `json:",inline"`
	Podstead     string `json:"podstead"`
	Bindings     string `json:"podmanBindings,omitempty"`
}

// Results of submitting a pod, in kubectl's words.
const (
	ResultCreated    = "created"
	ResultConfigured = "configured"
	ResultUnchanged  = "unchanged"
)

// Submitted answers a submission that was taken.
type Submitted struct {
	metav1.TypeMeta `json:",inline"`
	// DryRun is true when the submission was only checked.
	DryRun bool           `json:"dryRun,omitempty"`
	Items  []SubmittedPod `json:"items"`
}

// KindSubmitted is the kind of Submitted.
const KindSubmitted = "Submitted"

// SubmittedPod says what became of one pod of a submission.
type SubmittedPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Result    string `json:"result"`
}

// Refusal answers a submission that was not taken: a Kubernetes Status whose
// causes name every field, and the same again by place and line.
type Refusal struct {
	metav1.Status `json:",inline"`
	Rejections    []Rejection `json:"rejections,omitempty"`
}

// Rejection is a document of the submission that was refused.
type Rejection struct {
	Place     string       `json:"place,omitempty"` // the unit, and the document within it: "web.yaml#2"
	Namespace string       `json:"namespace,omitempty"`
	Name      string       `json:"name,omitempty"`
	Reason    string       `json:"reason"` // a pod.RejectionReason
	Errors    []FieldError `json:"errors"`
}

// FieldError is one thing wrong with one field.
type FieldError struct {
	Field   string `json:"field,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
	Line    int    `json:"line,omitempty"` // 1-based, within the body
}

// Query is the body of POST /sql. Parameters is a JSON array for ? and ?1, or an
// object for :name, @name and $name.
type Query struct {
	Query      string          `json:"query"`
	Parameters json.RawMessage `json:"parameters,omitempty"`
}

// Rows answers POST /sql?format=rows. A blob is base64 text, and an infinite
// number the text Infinity or -Infinity, which JSON has no number for.
type Rows struct {
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	// Truncated names the cap that cut the rows short, rows or bytes; empty when
	// they are all there.
	Truncated string `json:"truncated,omitempty"`
}

// HeaderTruncated carries Rows.Truncated when the answer is an array of objects.
const HeaderTruncated = "Podstead-Truncated"
