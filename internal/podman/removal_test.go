package podman

import (
	"errors"
	"net/http"
	"testing"

	"github.com/containers/podman/v4/pkg/errorhandling"

	"podstead.io/podstead/internal/pod"
)

func TestRemovalOutlivesAnEndOfTheContainersOwn(t *testing.T) {
	improper := &errorhandling.ErrorModel{Because: "container state improper", ResponseCode: http.StatusInternalServerError}
	absent := &errorhandling.ErrorModel{Because: "no such pod", ResponseCode: http.StatusNotFound}
	tests := []struct {
		name    string
		answers []error
		tries   int
		class   pod.Class
	}{
		{"removed", []error{nil}, 1, ""},
		{"was not there", []error{absent}, 1, ""},
		{"ended meanwhile", []error{improper, nil}, 2, ""},
		{"ended meanwhile, and went", []error{improper, absent}, 2, ""},
		{"can't be removed", []error{improper, improper, improper, nil}, 3, pod.Conflict},
		{"nobody answers", []error{errors.New("broken"), nil}, 1, pod.Unavailable},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			tries := 0
			err := removal("remove pod", "p1", func() error {
				tries++
				return test.answers[tries-1]
			})
			if tries != test.tries || pod.ClassOf(err) != test.class {
				t.Errorf("%d tries and error %v; want %d and class %q", tries, err, test.tries, test.class)
			}
		})
	}
}
