package manifest

import (
	"cmp"
	"slices"

	"podstead.io/podstead/internal/pod"
)

// maxFaults bounds what is said about one document: a file of another kind has
// something wrong on every line.
const maxFaults = 100

// faults collects field errors, the first maxFaults of them, each once.
type faults []pod.FieldError

// full reports that no more will be taken, and so need not be looked for.
func (f faults) full() bool { return len(f) >= maxFaults }

func (f *faults) add(e pod.FieldError) {
	if !f.full() && !slices.Contains(*f, e) {
		*f = append(*f, e)
	}
}

// sorted is the errors in the order of the file.
func (f faults) sorted() []pod.FieldError {
	slices.SortStableFunc(f, func(a, b pod.FieldError) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Field, b.Field))
	})
	return f
}
