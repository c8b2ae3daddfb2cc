package manifest

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	podutil "k8s.io/kubernetes/pkg/api/pod"
	"k8s.io/kubernetes/pkg/apis/core"
	corev1defaults "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/kubernetes/pkg/apis/core/validation"

	"podstead.io/podstead/internal/pod"
)

// checkLocal finds what Kubernetes accepts and this node can't take, as far as
// the table of fields does not say it.
func (c *checker) checkLocal(p *corev1.Pod) {
	meta, spec := path{}.field("metadata"), path{}.field("spec")
	if p.GenerateName != "" && p.Name == "" {
		c.fault(meta.field("name"), causeRequired, "names are not generated here, because applying again would make another pod; give the pod a name")
	}
	for key := range p.Annotations {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) {
			c.fault(meta.field("annotations").key(key), causeForbidden, "AppArmor profiles are not supported yet; remove it")
		}
	}
	if at := spec.field("nodeName"); p.Spec.NodeName != "" {
		if p.Spec.NodeName != c.nodeName {
			c.fault(at, causeInvalid, "this node is %q, not %q; remove the field or correct it", c.nodeName, shorten(p.Spec.NodeName))
		}
		c.taken = append(c.taken, finding{at, &noOpRule})
	}
	c.checkVolumes(spec.field("volumes"), p.Spec.Volumes)
	c.checkContainers(spec.field("initContainers"), p.Spec.InitContainers)
	c.checkContainers(spec.field("containers"), p.Spec.Containers)
}

func (c *checker) checkVolumes(at path, volumes []corev1.Volume) {
	for i, v := range volumes {
		if e := v.EmptyDir; e != nil && e.Medium == corev1.StorageMediumDefault && e.SizeLimit != nil && !e.SizeLimit.IsZero() {
			c.fault(at.item(i).field("emptyDir").field("sizeLimit"), causeForbidden,
				"a limit of %s on disk is not supported yet; remove it, or set medium: Memory", e.SizeLimit)
		}
		if h := v.HostPath; h != nil {
			c.checkAbsolute(at.item(i).field("hostPath").field("path"), h.Path)
		}
	}
}

func (c *checker) checkContainers(at path, containers []corev1.Container) {
	for i := range containers {
		container, at := &containers[i], at.item(i)
		if container.Image != "" {
			if _, err := pod.NormalizeImage(container.Image); err != nil {
				c.fault(at.field("image"), causeInvalid, "%s; write it like nginx or docker.io/library/nginx:1.27", shorten(err.Error()))
			}
		}
		for j, m := range container.VolumeMounts {
			c.checkAbsolute(at.field("volumeMounts").item(j).field("mountPath"), m.MountPath)
		}
		for j, p := range container.Ports {
			if p.HostIP == "" {
				continue
			}
			if _, err := netip.ParseAddr(p.HostIP); err != nil {
				c.fault(at.field("ports").item(j).field("hostIP"), causeInvalid, "%q is not an IP address of this node; leave it out for all of them", shorten(p.HostIP))
			}
		}
	}
}

func (c *checker) checkAbsolute(at path, value string) {
	if value != "" && !strings.HasPrefix(value, "/") {
		c.fault(at, causeInvalid, "%q must be an absolute path; start it with /", shorten(value))
	}
}

// validate adds what Kubernetes finds wrong with the pod as it was submitted,
// where nothing was found already, and returns Kubernetes' warnings.
func (c *checker) validate(submitted *corev1.Pod) ([]string, error) {
	internal := &core.Pod{}
	if err := corev1defaults.Convert_v1_Pod_To_core_Pod(submitted.DeepCopy(), internal, nil); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	for _, f := range c.faults {
		if f.Field != "" {
			known[parsePath(f.Field).id()] = true
		}
	}
	for _, f := range c.taken {
		known[f.at.id()] = true
	}
	// As the API server validates what is created (pkg/registry/core/pod).
	opts := podutil.GetValidationOptionsFromPodSpecAndMeta(&internal.Spec, nil, &internal.ObjectMeta, nil)
	opts.ResourceIsPod = true
	for _, e := range validation.ValidatePodCreate(internal, opts) {
		if c.faults.full() {
			break
		}
		if at := c.asWritten(parsePath(e.Field)); !covered(at, known) && !c.echo(e, at) {
			c.fault(at, string(e.Type), "%s", c.explain(e, at))
		}
	}
	return podutil.GetWarningsForPod(context.Background(), internal, nil), nil
}

// asWritten is the place that an error is about in the manifest: a request that
// stands there as a limit only was copied by defaulting.
func (c *checker) asWritten(at path) path {
	if len(at) < 2 || at[len(at)-2].name != "requests" {
		return at
	}
	limit := slices.Clone(at)
	limit[len(limit)-2].name = "limits"
	_, request := locate(c.root, at)
	if _, written := locate(c.root, limit); request == nil && written != nil {
		return limit
	}
	return at
}

// covered reports whether at is at or below one of the places.
func covered(at path, places map[string]bool) bool {
	for i := range at {
		if places[at[:i+1].id()] {
			return true
		}
	}
	return false
}

// echo reports whether an error follows from another one: the place of a name
// that is missing is not found either, and some errors of a mount are told of all
// mounts at once, when the mount's own was told already.
func (c *checker) echo(e *field.Error, at path) bool {
	if e.Type == field.ErrorTypeNotFound && e.BadValue == "" {
		return true
	}
	pattern := at.pattern()
	return !strings.HasSuffix(pattern, "[]") && slices.ContainsFunc(c.unsupported, func(f finding) bool {
		return f.at.pattern() != pattern && strings.ReplaceAll(f.at.pattern(), "[]", "") == strings.ReplaceAll(pattern, "[]", "")
	})
}

// explain is Kubernetes' message, with the way out where it says none.
func (c *checker) explain(e *field.Error, at path) string {
	message := e.ErrorBody()
	if len(message) > 2*maxShown { // a long value would hide what is wrong with it
		message = fmt.Sprintf("%s: %s", e.Type, shorten(e.Detail))
	}
	switch pattern := at.pattern(); {
	case pattern == "metadata.name" && e.Type == field.ErrorTypeRequired:
		message = "the pod has no name; give it one"
	case pattern == "metadata.name" && c.static:
		message += fmt.Sprintf("; the node's name is part of it, as the pod comes from a file or URL: shorten or correct what is before %q", "-"+strings.ToLower(c.nodeName))
	case e.Type == field.ErrorTypeNotFound && strings.HasSuffix(pattern, ".volumeMounts[].name"):
		message += "; spec.volumes has no volume of that name"
	case e.Type == field.ErrorTypeRequired && e.Detail == "":
		message += "; add it"
	case e.Type == field.ErrorTypeDuplicate:
		message += "; each must be used once"
	case e.Type == field.ErrorTypeForbidden:
		message += "; remove it"
	}
	return message
}
