package store

import (
	"slices"
	"testing"

	"podstead.io/podstead/internal/pod"
)

func TestListing(t *testing.T) {
	s, _ := newStore(t)
	elsewhere := submission("a")
	elsewhere.Pod.Namespace = "other"
	mustSync(t, s, dirA, set(submission("b"), submission("a", withImage("side", "nginx"))))
	mustSubmit(t, s, elsewhere)
	mustSync(t, s, dirA, set(submission("a", withImage("side", "nginx"))))
	mustSync(t, s, dirA, set(submission("b"), submission("a", withImage("side", "nginx"))))
	names := func(namespace string) []string {
		t.Helper()
		list, err := s.Pods(t.Context(), namespace)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		for _, d := range list {
			n := d.Key.String()
			if d.Deletion != nil {
				n += " (deleted)"
			}
			out = append(out, n)
			single, err := s.Load(t.Context(), d.UID)
			if err != nil || len(single.Desired.Containers) != len(d.Containers) {
				t.Errorf("%s: %v, %d containers of %d", n, err, len(d.Containers), len(single.Desired.Containers))
			}
		}
		return out
	}
	if got, want := names(""), []string{"default/a", "default/b (deleted)", "default/b", "other/a"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if got, want := names("other"), []string{"other/a"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if d, err := s.Pod(t.Context(), key("b")); err != nil || d.Deletion != nil || d.Incarnation != 2 {
		t.Errorf("%+v, %v", d, err)
	}
	mustSync(t, s, dirA, set())
	if d, err := s.Pod(t.Context(), key("a")); err != nil || d.Deletion == nil {
		t.Errorf("%+v, %v", d, err)
	}
	_, err := s.Pod(t.Context(), key("none"))
	wantClass(t, err, pod.NotFound, "default/none")
}
