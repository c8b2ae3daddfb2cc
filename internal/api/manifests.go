package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/go-chi/chi/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"podstead.io/podstead/internal/manifest"
	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/wire"
)

// Sink takes what is submitted. All three return once it is durable, and may be
// repeated.
type Sink interface {
	// Submit creates or edits all the pods given or none. Class Conflict: another
	// source owns a name, and the result lists each that is.
	Submit(ctx context.Context, src pod.Source, subs []pod.Submission) (pod.SyncResult, error)
	// Withdraw deletes a pod of the source; grace nil: the pod's own. Class
	// NotFound: there is none. Class Conflict: another source owns it.
	Withdraw(ctx context.Context, src pod.Source, key pod.Key, grace *time.Duration) error
	// Reject records what was refused.
	Reject(ctx context.Context, src pod.Source, list []pod.Rejection) error
}

// Source is the source that everything submitted here belongs to.
var Source = pod.Source{ID: string(pod.SourceHTTP), Kind: pod.SourceHTTP}

const (
	defaultUnit = "request"
	maxUnit     = 200 // bytes
	maxWarnings = 32
	// maxGraceSeconds is a hundred years, which a duration still holds.
	maxGraceSeconds = 100 * 365 * 24 * 3600
)

type manifestHandler struct {
	parser  manifest.Parser
	sink    Sink
	pods    Pods
	maxBody int64
}

// manifestRoutes submits and withdraws. ?unit= names the file that the body came
// from, for messages and history; ?namespace= is that of pods that name none;
// ?dryRun=All only says what would be done.
func manifestRoutes(r chi.Router, h manifestHandler) {
	r.Post(wire.PathManifests, h.submit)
	r.Delete(wire.PathManifests+"/{namespace}/{name}", h.withdraw)
}

func (h manifestHandler) submit(w http.ResponseWriter, r *http.Request) {
	dryRun, err := dryRunOf(r)
	if err != nil {
		writeError(w, r, err)
		return
	}
	rule := bodyRule{
		types: []string{"application/yaml", "application/json", "application/x-yaml", "text/yaml", "text/x-yaml"},
		limit: h.maxBody,
	}
	body, _, err := rule.read(w, r)
	if err != nil {
		writeError(w, r, err)
		return
	}
	unit := unitOf(r)
	parser := h.parser
	parser.Namespace = r.URL.Query().Get("namespace")
	set := parser.Parse(unit, body, pod.SourceHTTP)
	switch {
	case len(set.Rejections) > 0:
		if !dryRun {
			if err := h.sink.Reject(r.Context(), Source, set.Rejections); err != nil {
				noteFault(r, err) // the sender is told all the same
			}
		}
		writeRefusal(w, unit, set.Rejections, http.StatusUnprocessableEntity, metav1.StatusReasonInvalid)
		return
	case len(set.Pods) == 0:
		writeError(w, r, &pod.Error{Class: pod.Invalid, Op: "read", Object: unit, Err: errors.New("there is no pod in it")})
		return
	}
	submit := h.sink.Submit
	if dryRun {
		submit = h.preview
	}
	result, err := submit(r.Context(), Source, set.Pods)
	switch {
	case len(result.Conflicts) > 0:
		writeRefusal(w, unit, result.Conflicts, http.StatusConflict, metav1.StatusReasonConflict)
	case err != nil:
		writeError(w, r, err)
	default:
		warn(w, set.Pods)
		answer := submitted(set.Pods, result)
		answer.DryRun = dryRun
		code := http.StatusOK
		if len(result.Created) > 0 && !dryRun {
			code = http.StatusCreated
		}
		writeJSON(w, code, answer)
	}
}

// preview says what Submit would do now.
func (h manifestHandler) preview(ctx context.Context, src pod.Source, subs []pod.Submission) (pod.SyncResult, error) {
	var result pod.SyncResult
	for _, sub := range subs {
		key := sub.Key()
		d, err := h.pods.Pod(ctx, key)
		switch {
		case pod.ClassOf(err) == pod.NotFound, err == nil && d.Deletion != nil:
			result.Created = append(result.Created, key)
		case err != nil:
			return result, err
		case d.Source.ID != src.ID:
			result.Conflicts = append(result.Conflicts, pod.Rejection{
				Unit: sub.Unit, Place: sub.Place, Key: key, Reason: pod.RejectedConflict,
				Errors: []pod.FieldError{{Field: "metadata.name", Reason: string(metav1.CauseTypeFieldValueDuplicate), Message: fmt.Sprintf("pod %s belongs to %s", key, owner(d))}},
			})
		case d.Hash == sub.Hash:
			result.Unchanged = append(result.Unchanged, key)
		default:
			result.Updated = append(result.Updated, key)
		}
	}
	return result, nil
}

func (h manifestHandler) withdraw(w http.ResponseWriter, r *http.Request) {
	key := keyOf(r)
	dryRun, err := dryRunOf(r)
	var grace *time.Duration
	if err == nil {
		grace, err = graceOf(r)
	}
	if err == nil {
		if dryRun {
			err = h.mayWithdraw(r.Context(), key)
		} else {
			err = h.sink.Withdraw(r.Context(), Source, key, grace)
		}
	}
	if err != nil {
		writeError(w, r, namePod(err, key))
		return
	}
	writeJSON(w, http.StatusOK, metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"},
		Status:   metav1.StatusSuccess,
		Code:     http.StatusOK,
		Details:  &metav1.StatusDetails{Name: key.Name, Kind: pods.Resource},
	})
}

// mayWithdraw fails as Withdraw would.
func (h manifestHandler) mayWithdraw(ctx context.Context, key pod.Key) error {
	d, err := h.pods.Pod(ctx, key)
	if err == nil && d.Source.ID != Source.ID {
		err = &pod.Error{Class: pod.Conflict, Op: "delete pod", Object: key.String(), Err: fmt.Errorf("it belongs to %s: remove it there", owner(d))}
	}
	return err
}

// owner names the source of a pod, and the place within it.
func owner(d pod.Desired) string {
	if d.Place == "" {
		return d.Source.ID
	}
	return d.Source.ID + " (" + d.Place + ")"
}

func dryRunOf(r *http.Request) (bool, error) {
	switch v := r.URL.Query()["dryRun"]; {
	case len(v) == 0:
		return false, nil
	case len(v) == 1 && v[0] == metav1.DryRunAll:
		return true, nil
	default:
		return false, &pod.Error{Class: pod.Invalid, Op: "read", Object: "?dryRun", Err: fmt.Errorf("its only value is %s", metav1.DryRunAll)}
	}
}

func graceOf(r *http.Request) (*time.Duration, error) {
	text := r.URL.Query().Get("gracePeriodSeconds")
	if text == "" {
		return nil, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > maxGraceSeconds {
		return nil, &pod.Error{Class: pod.Invalid, Op: "read", Object: "?gracePeriodSeconds", Err: fmt.Errorf("%q is not a number of seconds from 0 to %d", text, maxGraceSeconds)}
	}
	grace := time.Duration(n) * time.Second
	return &grace, nil
}

// unitOf is the name that the body goes by.
func unitOf(r *http.Request) string {
	unit := strings.Map(func(c rune) rune {
		if unicode.IsPrint(c) {
			return c
		}
		return -1
	}, strings.ToValidUTF8(r.URL.Query().Get("unit"), ""))
	if unit == "" || len(unit) > maxUnit {
		return defaultUnit
	}
	return unit
}

// submitted puts the result in the order of the submission.
func submitted(subs []pod.Submission, result pod.SyncResult) wire.Submitted {
	results := map[pod.Key]string{}
	for _, k := range result.Created {
		results[k] = wire.ResultCreated
	}
	for _, k := range result.Updated {
		results[k] = wire.ResultConfigured
	}
	answer := wire.Submitted{TypeMeta: metav1.TypeMeta{Kind: wire.KindSubmitted, APIVersion: wire.APIVersion}}
	for _, s := range subs {
		k := s.Key()
		item := wire.SubmittedPod{Namespace: k.Namespace, Name: k.Name, Result: wire.ResultUnchanged}
		if r, changed := results[k]; changed {
			item.Result = r
		}
		answer.Items = append(answer.Items, item)
	}
	return answer
}

// warn puts the submissions' warnings into headers, as Kubernetes' API does.
func warn(w http.ResponseWriter, subs []pod.Submission) {
	n := 0
	for _, s := range subs {
		for _, text := range s.Warnings {
			if n++; n > maxWarnings {
				return
			}
			text = strings.Map(spaceForControl, strings.ToValidUTF8("pod/"+s.Pod.Name+": "+text, "\uFFFD"))
			header, err := utilnet.NewWarningHeader(299, "-", text)
			if err != nil {
				panic(fmt.Errorf("warn of %q: %w", text, err)) // nothing that it refuses is left
			}
			w.Header().Add("Warning", header)
		}
	}
}

func spaceForControl(c rune) rune {
	if unicode.IsControl(c) {
		return ' '
	}
	return c
}
