package podman

import (
	"testing"
	"time"

	"github.com/containers/podman/v4/libpod/define"

	"podstead.io/podstead/internal/pod"
)

func TestStateIsToldAsItIs(t *testing.T) {
	started := time.Date(2026, 1, 2, 3, 4, 5, 678, time.UTC)
	finished := started.Add(time.Minute)
	never := time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		name  string
		state define.InspectContainerState
		want  pod.Container
	}{
		{"never started", define.InspectContainerState{Status: "created", StartedAt: never, FinishedAt: never}, pod.Container{State: pod.RunCreated}},
		{"being started", define.InspectContainerState{Status: "initialized", StartedAt: never, FinishedAt: never}, pod.Container{State: pod.RunCreated}},
		{"runs", define.InspectContainerState{Status: "running", Pid: 7, StartedAt: started, FinishedAt: never}, pod.Container{State: pod.RunRunning, PID: 7}},
		{"has its grace", define.InspectContainerState{Status: "stopping", Pid: 7, StartedAt: started, FinishedAt: never}, pod.Container{State: pod.RunRunning, PID: 7}},
		{"ended", define.InspectContainerState{Status: "exited", ExitCode: 3, StartedAt: started, FinishedAt: finished}, pod.Container{State: pod.RunExited, ExitCode: 3}},
		{"killed", define.InspectContainerState{Status: "exited", ExitCode: 137, StartedAt: started, FinishedAt: finished}, pod.Container{State: pod.RunExited, ExitCode: 137}},
		{"someone asked for its end", define.InspectContainerState{Status: "exited", ExitCode: 143, StoppedByUser: true, StartedAt: started, FinishedAt: finished},
			pod.Container{State: pod.RunExited, ExitCode: 143, EndCause: pod.CauseUser, EndDetail: "stopped in Podman"}},
		{"ran when the machine went down", define.InspectContainerState{Status: "created", StartedAt: started, FinishedAt: never},
			pod.Container{State: pod.RunExited, ExitCode: 137, EndCause: pod.CauseReboot, EndDetail: "the machine was restarted"}},
		{"ran when the machine went down, and someone had started it again before", define.InspectContainerState{Status: "created", StartedAt: finished, FinishedAt: started},
			pod.Container{State: pod.RunExited, ExitCode: 137, EndCause: pod.CauseReboot, EndDetail: "the machine was restarted"}},
		{"ran when the machine went down, in Podman 5", define.InspectContainerState{Status: "exited", StartedAt: started, FinishedAt: never},
			pod.Container{State: pod.RunExited, ExitCode: 137, EndCause: pod.CauseReboot, EndDetail: "the machine was restarted"}},
		{"completed, and the clock was set back meanwhile", define.InspectContainerState{Status: "exited", StartedAt: finished, FinishedAt: started}, pod.Container{State: pod.RunExited}},
		{"is being started again by hand", define.InspectContainerState{Status: "initialized", StartedAt: started, FinishedAt: finished}, pod.Container{State: pod.RunCreated}},
		{"Podman does not know", define.InspectContainerState{Status: "bad state", StartedAt: never, FinishedAt: never}, pod.Container{State: pod.RunUnknown}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := new(Driver).container(&define.InspectContainerData{State: &test.state}, pod.Identity{})
			if want := normalize(test.state.StartedAt); !got.StartedAt.Equal(want) {
				t.Errorf("started at %s, want %s", got.StartedAt, want)
			}
			got.StartedAt, got.FinishedAt = time.Time{}, time.Time{}
			if got != test.want {
				t.Errorf("got  %#v\nwant %#v", got, test.want)
			}
		})
	}
}
