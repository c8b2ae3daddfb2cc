package manifest

import (
	"github.com/distribution/reference"

	"podstead.io/podstead/internal/pod"
)

// NormalizeImage is the full name of an image, as Kubernetes' runtimes read it:
// nginx is docker.io/library/nginx:latest. A digest is kept, and makes a tag
// beside it superfluous. The error has class Invalid.
func NormalizeImage(name string) (string, error) {
	ref, err := reference.ParseDockerRef(name)
	if err != nil {
		return "", &pod.Error{Class: pod.Invalid, Op: "read image name", Object: shorten(name), Err: err}
	}
	return ref.String(), nil
}
