// Package version says which Podstead this is, and which Kubernetes and Podman it
// was built from. It owns no goroutine and does no I/O.
package version

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
)

// version is set by the build: -X podstead.io/podstead/internal/version.version=v1.2.3.
var version = "v0.0.0-unknown"

// Info describes the build. A module that the binary lacks is empty.
type Info struct {
	Version    string `json:"version"`
	GoVersion  string `json:"goVersion"`
	Platform   string `json:"platform"`   // linux/arm64
	Kubernetes string `json:"kubernetes"` // k8s.io/kubernetes, whose defaults and validation apply
	Bindings   string `json:"bindings"`   // Podman's
}

// Get returns the build's description.
func Get() Info {
	return Info{
		Version:    version,
		GoVersion:  runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
		Kubernetes: modules()["k8s.io/kubernetes"],
		Bindings:   modules()["github.com/containers/podman/v4"],
	}
}

// String is one line for people.
func (i Info) String() string {
	s := fmt.Sprintf("%s (%s, %s", i.Version, i.GoVersion, i.Platform)
	if i.Kubernetes != "" {
		s += ", Kubernetes " + i.Kubernetes
	}
	if i.Bindings != "" {
		s += ", Podman bindings " + i.Bindings
	}
	return s + ")"
}

// modules are the versions of the modules that the binary was linked from.
var modules = sync.OnceValue(func() map[string]string {
	versions := map[string]string{}
	build, ok := debug.ReadBuildInfo()
	if !ok {
		return versions
	}
	for _, m := range build.Deps {
		if m.Replace != nil {
			m = &debug.Module{Path: m.Path, Version: m.Replace.Version}
		}
		versions[m.Path] = m.Version
	}
	return versions
})
