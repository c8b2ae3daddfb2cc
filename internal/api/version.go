package api

import (
	"runtime"
	"strings"

	apiversion "k8s.io/apimachinery/pkg/version"

	"podstead.io/podstead/internal/version"
	"podstead.io/podstead/internal/wire"
)

// versionOf is the build in Kubernetes' shape. Clients judge by major and minor
// what they may ask for, so those are Kubernetes'.
func versionOf(v version.Info) wire.Version {
	kubernetes := v.Kubernetes
	if kubernetes == "" {
		kubernetes = "v0.0.0"
	}
	numbers := append(strings.Split(strings.TrimPrefix(kubernetes, "v"), "."), "0", "0")
	return wire.Version{
		Info: apiversion.Info{
			Major: numbers[0], Minor: numbers[1], GitVersion: kubernetes + "+podstead-" + strings.TrimPrefix(v.Version, "v"),
			GoVersion: v.GoVersion, Compiler: runtime.Compiler, Platform: v.Platform,
		},
		Podstead: v.Version,
		Bindings: v.Bindings,
	}
}
