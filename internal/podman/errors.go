package podman

import (
	"context"
	"errors"
	"net/http"

	"github.com/containers/podman/v4/libpod/define"
	"github.com/containers/podman/v4/pkg/bindings"
	"github.com/containers/podman/v4/pkg/errorhandling"
	"github.com/containers/storage/types"

	"podstead.io/podstead/internal/pod"
)

// causes are the root causes that call for more than the status code says.
// Podman answers 500 to nearly everything; the API documents its "cause" as
// made for automated parsing, and it is the text of an exported error.
var causes = map[string]pod.Class{
	define.ErrNoSuchCtr.Error():                  pod.NotFound,
	define.ErrNoSuchPod.Error():                  pod.NotFound,
	types.ErrImageUnknown.Error():                pod.NotFound,
	types.ErrContainerUnknown.Error():            pod.NotFound,
	define.ErrPodExists.Error():                  pod.Conflict,
	define.ErrCtrExists.Error():                  pod.Conflict,
	types.ErrDuplicateName.Error():               pod.Conflict,
	define.ErrCtrStateInvalid.Error():            pod.Conflict,
	define.ErrInvalidArg.Error():                 pod.Invalid,
	define.ErrOCIRuntime.Error():                 pod.Invalid,
	define.ErrOCIRuntimeNotFound.Error():         pod.Invalid,
	define.ErrOCIRuntimePermissionDenied.Error(): pod.Invalid,
}

// classify gives an error of the bindings its class, operation and object.
func classify(op, object string, err error) error {
	if err == nil {
		return nil
	}
	return &pod.Error{Class: classOf(err), Op: op, Object: object, Err: err}
}

func classOf(err error) pod.Class {
	var answer *errorhandling.ErrorModel
	var connect bindings.ConnectError
	switch {
	case errors.As(err, &answer):
		if class, ok := causes[answer.Because]; ok {
			return class
		}
		switch answer.ResponseCode {
		case http.StatusNotFound:
			return pod.NotFound
		case http.StatusConflict:
			return pod.Conflict
		case http.StatusBadRequest:
			return pod.Invalid
		case http.StatusServiceUnavailable: // see answering
			return pod.Unavailable
		}
		return pod.Internal
	case errors.As(err, &connect), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return pod.Unavailable
	default: // the connection broke, or the answer did
		return pod.Unavailable
	}
}
