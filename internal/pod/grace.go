package pod

import (
	"math"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// GracePeriod is the pod's termination grace period, Kubernetes' default when it
// names none. One too long for a duration, meant as "never kill", is the longest.
func GracePeriod(p *corev1.Pod) time.Duration {
	seconds := int64(corev1.DefaultTerminationGracePeriodSeconds)
	if p != nil && p.Spec.TerminationGracePeriodSeconds != nil {
		seconds = max(0, *p.Spec.TerminationGracePeriodSeconds)
	}
	return time.Duration(min(seconds, math.MaxInt32)) * time.Second
}
