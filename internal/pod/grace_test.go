package pod

import (
	"math"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

func TestGracePeriod(t *testing.T) {
	for _, tc := range []struct {
		seconds *int64
		want    time.Duration
	}{
		{nil, 30 * time.Second},
		{ptr.To[int64](0), 0},
		{ptr.To[int64](7), 7 * time.Second},
		{ptr.To[int64](math.MaxInt64), math.MaxInt32 * time.Second},
	} {
		got := GracePeriod(&corev1.Pod{Spec: corev1.PodSpec{TerminationGracePeriodSeconds: tc.seconds}})
		if got != tc.want {
			t.Errorf("%v: %s, want %s", tc.seconds, got, tc.want)
		}
	}
	if got := GracePeriod(nil); got != 30*time.Second {
		t.Errorf("no pod: %s", got)
	}
}
