package version

import (
	"runtime"
	"testing"
)

func TestString(t *testing.T) {
	tests := map[string]Info{
		"v1.2.3 (go1.26, linux/arm64)": {Version: "v1.2.3", GoVersion: "go1.26", Platform: "linux/arm64"},
		"v1.2.3 (go1.26, linux/arm64, Kubernetes v1.37.2, Podman bindings v4.9.5)": {
			Version: "v1.2.3", GoVersion: "go1.26", Platform: "linux/arm64", Kubernetes: "v1.37.2", Bindings: "v4.9.5"},
	}
	for want, info := range tests {
		if got := info.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestGet(t *testing.T) {
	got := Get()
	if got.Version == "" || got.GoVersion != runtime.Version() || got.Platform != runtime.GOOS+"/"+runtime.GOARCH {
		t.Errorf("got %+v", got)
	}
}
