package runtimetest_test

import (
	"testing"

	"podstead.io/podstead/internal/observe"
	"podstead.io/podstead/internal/reconcile"
	"podstead.io/podstead/internal/runtimetest"
)

var (
	_ reconcile.Runtime    = (*runtimetest.Fake)(nil)
	_ reconcile.Images     = (*runtimetest.ImageStore)(nil)
	_ reconcile.Volumes    = (*runtimetest.VolumeStore)(nil)
	_ observe.Runtime      = (*runtimetest.Fake)(nil)
	_ runtimetest.Observer = observe.Runtime(nil)
	_ observe.Runtime      = runtimetest.Observer(nil)
)

// machine is the fake past its API.
type machine struct{ *runtimetest.Fake }

func (m machine) Command(container string, s runtimetest.Script) []string {
	m.SetScript(container, s)
	return []string{"/bin/scripted"}
}

type service struct{ f *runtimetest.Fake }

func (s service) Stop()   { s.f.StopService() }
func (s service) Start()  { s.f.StartService() }
func (s service) Pause()  { s.f.HangService() }
func (s service) Resume() { s.f.StartService() }

func TestFakeConforms(t *testing.T) {
	runtimetest.Conformance(t, func(t *testing.T) runtimetest.Harness {
		f := runtimetest.New(runtimetest.Options{Node: "node-1"})
		t.Cleanup(f.Close)
		const image = "docker.io/library/busybox:latest"
		return runtimetest.Harness{
			Runtime: f, Observer: f, Node: f.Node(), Image: image, ImageID: f.Images().Add(image),
			Machine: machine{f}, Service: service{f}, OOM: true,
		}
	})
}
