package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	known := []string{"staticPodPath", "staticPodURL", "image", "imagePullPolicy", "name", "env"}
	tests := []struct{ word, want string }{
		{"staticPodPth", "staticPodPath"},
		{"staticpodurl", "staticPodURL"},
		{"STATICPODURI", "staticPodURL"},
		{"imagePull", "imagePullPolicy"}, // a beginning
		{"imgae", "image"},
		{"ame", "name"},
		{"nv", "env"},
		{"volumes", ""},
		{"x", ""},
		{"", ""},
		{strings.Repeat("x", 1<<20), ""},
	}
	for _, test := range tests {
		if got := Nearest(test.word, known); got != test.want {
			t.Errorf("%.20q: got %q, want %q", test.word, got, test.want)
		}
	}
}

func TestDistance(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0},
		{"abc", "abd", 1}, {"abc", "abcd", 1}, {"abc", "bc", 1}, {"abc", "acb", 2}, {"kitten", "sitting", 3},
	}
	for _, test := range tests {
		if got := distance(test.a, test.b); got != test.want {
			t.Errorf("%q, %q: got %d, want %d", test.a, test.b, got, test.want)
		}
	}
}
