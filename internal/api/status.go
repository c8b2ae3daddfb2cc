package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"podstead.io/podstead/internal/pod"
)

var pods = schema.GroupResource{Resource: "pods"}

// retryAfterSeconds is what a client is told to wait when the agent is busy.
const retryAfterSeconds = 1

// statusOf turns an error into the Status to answer, by its class. A Status
// already made by a handler stays as it is.
func statusOf(err error) metav1.Status {
	var api apierrors.APIStatus
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &api):
		return api.Status()
	case errors.As(err, &tooLarge):
		return status(http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge,
			fmt.Sprintf("the body is larger than %d bytes: send it in parts", tooLarge.Limit))
	case errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, context.DeadlineExceeded):
		return status(http.StatusRequestTimeout, metav1.StatusReasonTimeout, "the body did not arrive in time")
	case errors.Is(err, context.DeadlineExceeded) && pod.ClassOf(err) != pod.Busy:
		return status(http.StatusGatewayTimeout, metav1.StatusReasonTimeout, err.Error())
	case errors.Is(err, context.Canceled):
		return status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, "the agent is stopping")
	}
	switch pod.ClassOf(err) {
	case pod.Invalid:
		return status(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	case pod.NotFound:
		return status(http.StatusNotFound, metav1.StatusReasonNotFound, err.Error())
	case pod.Conflict:
		return status(http.StatusConflict, metav1.StatusReasonConflict, err.Error())
	case pod.Forbidden:
		return status(http.StatusForbidden, metav1.StatusReasonForbidden, err.Error())
	case pod.Busy:
		return tooMany(err.Error())
	case pod.Unavailable:
		s := status(http.StatusServiceUnavailable, metav1.StatusReasonServiceUnavailable, err.Error())
		s.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds}
		return s
	default:
		return status(http.StatusInternalServerError, metav1.StatusReasonInternalError, err.Error())
	}
}

// status is a failure with its code, reason and message.
func status(code int, reason metav1.StatusReason, message string) metav1.Status {
	return metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusFailure,
		Code:     int32(code),
		Reason:   reason,
		Message:  message,
	}
}

// tooMany is the answer when a limit on concurrent work is reached.
func tooMany(message string) metav1.Status {
	s := status(http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, message)
	s.Details = &metav1.StatusDetails{RetryAfterSeconds: retryAfterSeconds}
	return s
}

// writeError answers err. An internal error is also put where logRequests finds
// it, since it is a fault of the agent's.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	s := statusOf(err)
	if s.Code == http.StatusInternalServerError {
		noteFault(r, err)
	}
	writeStatus(w, s)
}

func writeStatus(w http.ResponseWriter, s metav1.Status) {
	s.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	setRetryAfter(w, s)
	writeJSON(w, int(s.Code), s)
}

func setRetryAfter(w http.ResponseWriter, s metav1.Status) {
	if s.Details != nil && s.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(s.Details.RetryAfterSeconds)))
	}
}

// writeJSON answers v. A client that has gone away is not an error.
func writeJSON(w http.ResponseWriter, code int, v any) {
	body := mustJSON(v)
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(body, '\n'))
}

// mustJSON encodes what is known to be encodable: Kubernetes' types, those of
// wire, and SQLite's values.
func mustJSON(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Errorf("encode %T: %w", v, err))
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func notFound(w http.ResponseWriter, r *http.Request) {
	writeStatus(w, status(http.StatusNotFound, metav1.StatusReasonNotFound,
		fmt.Sprintf("no such path: %s", r.URL.Path)))
}
