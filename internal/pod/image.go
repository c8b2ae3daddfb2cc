package pod

import "github.com/distribution/reference"

// NormalizeImage writes an image name out in full as Kubernetes and Docker do:
// nginx is docker.io/library/nginx:latest. A digest is kept, and then no tag is
// added. The error is of class Invalid.
func NormalizeImage(name string) (string, error) {
	ref, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", &Error{Class: Invalid, Op: "read image name", Object: name, Err: err}
	}
	return reference.TagNameOnly(ref).String(), nil
}
