// Package manifest turns what a source holds into pods: bytes of YAML or JSON
// go in, defaulted and validated pods and rejections come out. Restore turns
// the canonical form that is stored back into a pod.
//
// Kubernetes decides what a field means, what it defaults to and whether its
// value is valid; the table in fields.go decides which fields Podstead honours.
// A field that it can't honour is refused with its path, unless leaving it out
// would mean the same.
//
// The package owns no goroutine, does no I/O and looks nothing up: the same
// bytes give the same result for ever.
package manifest

import (
	"cmp"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/pod"
)

// Limits bound what one unit may hold. A zero field takes its default.
type Limits struct {
	// UnitBytes is the size of a file, response or request: 4 MiB.
	UnitBytes int
	// PodBytes is the size of one pod in canonical form: 1 MiB.
	PodBytes int
	// Documents is how many documents and list items a unit may have: 1000.
	Documents int
}

// WithDefaults fills in the zero fields.
func (l Limits) WithDefaults() Limits {
	if l.UnitBytes == 0 {
		l.UnitBytes = 4 << 20
	}
	if l.PodBytes == 0 {
		l.PodBytes = 1 << 20
	}
	if l.Documents == 0 {
		l.Documents = 1000
	}
	return l
}

// Parser reads manifests for one node.
type Parser struct {
	// NodeName is put, in lower case, behind the names of pods of static
	// sources, and is the only spec.nodeName that is accepted.
	NodeName string
	// Namespace is that of pods that name none; empty: default.
	Namespace string
	Limits    Limits
}

// Parse reads one unit: a file, the body of a response or of a request. Each
// document or list item becomes either a pod or a rejection; a broken one does
// not spoil the others. The unit is Incomplete when anything in it was refused.
//
// A unit without any document at all, not even a comment, is refused: that is
// what is left of a file after a power cut. One that holds only comments, or an
// empty list, wants no pods.
func (p Parser) Parse(unit string, data []byte, kind pod.SourceKind) pod.SourceSet {
	u := &unitParser{
		name: unit, kind: kind, nodeName: p.NodeName, limits: p.Limits.WithDefaults(),
		namespace: cmp.Or(p.Namespace, metav1.NamespaceDefault),
		places:    map[pod.Key]string{},
	}
	if fault := u.parse(data); fault != nil {
		u.reject(unit, pod.Key{}, pod.RejectedSyntax, *fault)
	}
	return u.set
}

// Refuse is the set of a unit that could not even be read: one rejection, and
// whatever pods it had are kept.
func Refuse(unit string, reason pod.RejectionReason, message string) pod.SourceSet {
	return pod.SourceSet{
		Rejections: []pod.Rejection{{Unit: unit, Place: unit, Reason: reason, Errors: []pod.FieldError{{Reason: causeInvalid, Message: message}}}},
		Incomplete: []string{unit},
	}
}

func conflict(s pod.Submission, owner string) pod.Rejection {
	return pod.Rejection{
		Unit: s.Unit, Place: s.Place, Key: s.Key(), Reason: pod.RejectedConflict,
		Errors: []pod.FieldError{{
			Field:   "metadata.name",
			Reason:  causeDuplicate,
			Message: fmt.Sprintf("pod %s is already defined in %s; rename one of them or remove it", s.Key(), owner),
		}},
	}
}

// The reasons of field errors, in Kubernetes' words.
const (
	causeInvalid      = string(metav1.CauseTypeFieldValueInvalid)
	causeTypeInvalid  = string(metav1.CauseTypeTypeInvalid)
	causeRequired     = string(metav1.CauseTypeFieldValueRequired)
	causeDuplicate    = string(metav1.CauseTypeFieldValueDuplicate)
	causeNotSupported = string(metav1.CauseTypeFieldValueNotSupported)
	causeForbidden    = string(metav1.CauseTypeForbidden)
)
