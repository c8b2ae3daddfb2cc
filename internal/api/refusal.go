package api

import (
	"fmt"
	"net/http"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/wire"
)

// writeRefusal answers with a Status that has a cause for each field error, and
// with the same by place and line.
func writeRefusal(w http.ResponseWriter, unit string, list []pod.Rejection, code int, reason metav1.StatusReason) {
	refusal := wire.Refusal{Status: status(code, reason, "")}
	details := &metav1.StatusDetails{Kind: "Pod", Name: list[0].Key.Name}
	for _, r := range list {
		out := wire.Rejection{Place: r.Place, Namespace: r.Key.Namespace, Name: r.Key.Name, Reason: string(r.Reason), Errors: []wire.FieldError{}}
		for _, e := range r.Errors {
			out.Errors = append(out.Errors, wire.FieldError{Field: e.Field, Reason: e.Reason, Message: e.Message, Line: e.Line})
			details.Causes = append(details.Causes, metav1.StatusCause{Type: metav1.CauseType(e.Reason), Field: e.Field, Message: placed(unit, r, e)})
		}
		refusal.Rejections = append(refusal.Rejections, out)
	}
	refusal.Details = details
	refusal.Message = summary(list, details.Causes)
	writeJSON(w, code, refusal)
}

// placed is the message with what a Status has no field for: the document and
// the line.
func placed(unit string, r pod.Rejection, e pod.FieldError) string {
	text := e.Message
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	if r.Place != "" && r.Place != unit {
		text = r.Place + ": " + text
	}
	return text
}

// summary is what a client that knows nothing of causes shows.
func summary(list []pod.Rejection, causes []metav1.StatusCause) string {
	subject := "the manifest"
	if len(list) == 1 && list[0].Key.Name != "" {
		subject = fmt.Sprintf("Pod %q", list[0].Key.Name)
	}
	if len(causes) == 0 {
		return subject + " is refused, and nothing was changed"
	}
	first := causes[0].Message
	if causes[0].Field != "" {
		first = causes[0].Field + ": " + first
	}
	if n := len(causes) - 1; n > 0 {
		first = fmt.Sprintf("%s (and %d more)", first, n)
	}
	return fmt.Sprintf("%s is refused, and nothing was changed: %s", subject, first)
}
