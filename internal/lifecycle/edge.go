package lifecycle

import (
	"fmt"

	"podstead.io/podstead/internal/pod"
)

// ContainerEdge is the history that a change of one observed attempt makes: the
// transitions of the container machine between two observations of it. before
// is nil when the attempt was not known, after is nil when the runtime has it no
// more. Creation is no edge, and neither is the removal of what had ended: the
// machine spans all attempts, and these do not change its state. last is the
// latest on record of any attempt: what it led to, and why.
func ContainerEdge(last pod.Transition, before, after *pod.Container) []pod.Transition {
	list := containerEdge(before, after)
	if len(list) == 0 || list[0].From != ContainerWaiting || last.To != ContainerTerminated {
		return list
	}
	// It was ended to be followed, and what was to record that was cut short. Or
	// it was started without being planned: a call was carried out late.
	again := list[0]
	again.From, again.Event, again.To = ContainerTerminated, EventRestart, ContainerWaiting
	again.Cause, again.Detail = last.Cause, last.Detail
	return append([]pod.Transition{again}, list...)
}

func containerEdge(before, after *pod.Container) []pod.Transition {
	was, is := containerState(before), containerState(after)
	if before == nil {
		was = ContainerWaiting
	}
	if after == nil {
		gone := *before
		gone.State = pod.RunGone
		after, is = &gone, ContainerTerminated
	}
	if was == is {
		return nil
	}
	edge := func(from, event, to string, cause pod.Cause, detail string) pod.Transition {
		return pod.Transition{
			Key: after.Key, UID: after.UID, Container: after.Container, Machine: pod.MachineContainer,
			From: from, Event: event, To: to, Cause: cause, Detail: detail, Attempt: after.Attempt,
		}
	}
	switch {
	case is == ContainerRunning && was == ContainerPaused:
		return []pod.Transition{edge(was, EventResume, is, pod.CauseUser, "resumed in Podman")}
	case is == ContainerRunning:
		return []pod.Transition{edge(was, EventStart, is, startCause(was), after.Image)}
	case is == ContainerPaused && was == ContainerRunning:
		return []pod.Transition{edge(was, EventPause, is, pod.CauseUser, "paused in Podman")}
	case is == ContainerPaused:
		return []pod.Transition{
			edge(was, EventStart, ContainerRunning, startCause(was), after.Image),
			edge(ContainerRunning, EventPause, is, pod.CauseUser, "paused in Podman"),
		}
	case is == ContainerTerminated && was == ContainerWaiting && neverRan(*after):
		return nil // it was removed before it ever ran
	case is == ContainerTerminated && after.State == pod.RunGone:
		return []pod.Transition{edge(was, EventVanish, is, endCause(*after), vanishDetail(*after))}
	case is == ContainerTerminated:
		return []pod.Transition{edge(was, EventExit, is, endCause(*after), describeEnd(*after))}
	}
	return nil
}

func containerState(c *pod.Container) string {
	if c == nil {
		return ContainerNone
	}
	switch c.State {
	case pod.RunRunning:
		return ContainerRunning
	case pod.RunPaused:
		return ContainerPaused
	case pod.RunExited, pod.RunGone, pod.RunUnknown:
		return ContainerTerminated
	default:
		return ContainerWaiting
	}
}

// startCause tells the agent's own starts from a container that had ended and
// was started again by hand: the agent makes a new attempt instead.
func startCause(was string) pod.Cause {
	if was == ContainerTerminated {
		return pod.CauseUser
	}
	return pod.CauseAgent
}

func vanishDetail(c pod.Container) string {
	if c.EndDetail != "" {
		return c.EndDetail
	}
	return fmt.Sprintf("container %s was removed from Podman", c.Name)
}
