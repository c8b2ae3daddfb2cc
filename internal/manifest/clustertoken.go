package manifest

import "strings"

// A cluster adds to every pod a volume with an API token, and mounts it. Both
// stand in exported manifests, where nobody wrote them; they are taken away.

var tokenRule = rule{verdict: harmless, warning: "the volume with the cluster's API token is left out: there are no service accounts"}

const tokenVolumePrefix = "kube-api-access-"

// tokenVolumes is the names of the token volumes of a pod, as the service
// account admission plug-in of Kubernetes names and builds them.
func tokenVolumes(object map[string]any) map[string]bool {
	names := map[string]bool{}
	spec, _ := object["spec"].(map[string]any)
	volumes, _ := spec["volumes"].([]any)
	for _, v := range volumes {
		volume, _ := v.(map[string]any)
		name, _ := volume["name"].(string)
		projected, _ := volume["projected"].(map[string]any)
		sources, _ := projected["sources"].([]any)
		if !strings.HasPrefix(name, tokenVolumePrefix) {
			continue
		}
		for _, s := range sources {
			if source, _ := s.(map[string]any); source["serviceAccountToken"] != nil {
				names[name] = true
			}
		}
	}
	return names
}

// isToken reports a token volume, or a mount of one.
func (c *checker) isToken(v any, pattern string) bool {
	if pattern != "spec.volumes[]" && !strings.HasSuffix(pattern, ".volumeMounts[]") {
		return false
	}
	object, _ := v.(map[string]any)
	name, _ := object["name"].(string)
	return c.tokens[name]
}
