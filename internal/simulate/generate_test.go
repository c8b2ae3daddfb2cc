package simulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

// generator makes a plan. It knows what it has wanted so far, and nothing of
// what will come of it.
type generator struct {
	*rand.Rand
	plan    plan
	slots   []shape
	wanted  map[int]bool
	acts    []weighted
	version int
}

type weighted struct {
	act    act
	weight int
}

// profiles say what tends to happen. In the first a working machine is left
// alone.
var profiles = [][]weighted{
	{{actSubmit, 8}, {actWithdraw, 3}, {actExit, 8}, {actOOM, 2}, {actInfra, 2}, {actScript, 5}},
	{{actSubmit, 8}, {actWithdraw, 4}, {actExit, 4}, {actOOM, 1}, {actInfra, 1}, {actCrash, 12}, {actRestart, 2}, {actScript, 2}},
	{{actSubmit, 6}, {actWithdraw, 3}, {actExit, 4}, {actOOM, 1}, {actInfra, 1}, {actFault, 14}, {actStreams, 1}, {actMute, 2}, {actStopped, 2}, {actHung, 2}, {actScript, 2}},
	{{actSubmit, 6}, {actWithdraw, 3}, {actExit, 2}, {actReboot, 4}, {actPowerCut, 5}, {actCrash, 3}, {actFull, 3}, {actScript, 2}},
	{{actSubmit, 5}, {actWithdraw, 2}, {actExit, 3}, {actStop, 3}, {actKill, 2}, {actStart, 3}, {actPause, 2}, {actRemove, 3}, {actRemovePod, 2}, {actUntag, 1}, {actRegistry, 1}, {actInfra, 2}, {actMute, 2}},
	{
		{actSubmit, 8}, {actWithdraw, 4}, {actExit, 4}, {actOOM, 2}, {actInfra, 2}, {actScript, 3}, {actStop, 1}, {actKill, 1}, {actStart, 1}, {actPause, 1},
		{actRemove, 1}, {actRemovePod, 1}, {actUntag, 1}, {actFault, 8}, {actStopped, 1}, {actHung, 1}, {actStreams, 1}, {actMute, 1}, {actRegistry, 1},
		{actCrash, 6}, {actRestart, 1}, {actReboot, 1}, {actPowerCut, 1}, {actFull, 2}, {actClock, 2},
	},
	{{actSubmit, 6}, {actWithdraw, 3}, {actExit, 4}, {actClock, 6}, {actScript, 3}, {actCrash, 1}, {actReboot, 1}},
}

func generate(seed uint64) plan {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 0x706f6473)), wanted: map[int]bool{}}
	g.plan = plan{Seed: seed, Fresh: g.chance(20), Backup: g.chance(4), Late: g.chance(2)}
	g.acts = profiles[g.IntN(len(profiles))]
	for slot := range 1 + g.IntN(3) {
		g.slots = append(g.slots, g.shape(slot))
	}
	for slot := range g.slots {
		g.script(slot, 0)
		g.submit(slot, g.pause(3*time.Second))
	}
	for range 1 + g.IntN(2) {
		for range 2 + g.IntN(16) {
			g.step()
		}
		g.add(step{After: g.pause(time.Minute), Act: actCalm, D: g.rest()})
	}
	return g.plan
}

func (g *generator) chance(oneIn int) bool { return g.IntN(oneIn) == 0 }

func (g *generator) add(s step) { g.plan.Steps = append(g.plan.Steps, s) }

// pause is mostly much shorter than its limit: what matters happens close
// together.
func (g *generator) pause(limit time.Duration) time.Duration {
	return time.Duration(math.Exp(g.Float64()*math.Log(float64(limit/time.Microsecond)))) * time.Microsecond
}

func (g *generator) rest() time.Duration {
	switch {
	case g.chance(1000):
		return 24 * time.Hour
	case g.chance(150):
		return 3 * time.Hour
	default:
		return time.Duration(3+g.IntN(10)) * time.Minute
	}
}

func (g *generator) shape(slot int) shape {
	s := shape{
		Slot: slot, File: g.chance(2), Volume: g.chance(3), Grace: int64(g.IntN(20)),
		Policy: corev1.RestartPolicyAlways,
	}
	switch g.IntN(5) {
	case 0:
		s.Policy = corev1.RestartPolicyOnFailure
	case 1:
		s.Policy = corev1.RestartPolicyNever
	}
	for i := range max(0, g.IntN(4)-1) {
		s.Init = append(s.Init, g.container(fmt.Sprintf("init%d", i)))
	}
	for i := range 1 + g.IntN(2) {
		s.Containers = append(s.Containers, g.container(string(rune('a'+i))))
	}
	return s
}

func (g *generator) container(name string) container {
	g.version++
	c := container{Name: name, Version: g.version, Image: busybox, Pull: corev1.PullIfNotPresent}
	if g.chance(4) {
		c.Image = nginx
	}
	if g.chance(8) {
		c.Pull = corev1.PullAlways
	}
	return c
}

// edit changes something about a pod, or nothing at all.
func (g *generator) edit(slot int) {
	s := g.slots[slot].clone()
	g.version++
	switch g.IntN(8) {
	case 0:
		s.Host = g.version
	case 1:
		if len(s.Containers) < 3 {
			s.Containers = append(s.Containers, g.container(fmt.Sprintf("x%d", g.version)))
		}
	case 2:
		if len(s.Containers) > 1 {
			s.Containers = s.Containers[:len(s.Containers)-1]
		}
	case 3:
		s.Grace = int64(g.IntN(20))
	case 4:
		if len(s.Init) > 0 {
			s.Init[g.IntN(len(s.Init))].Version = g.version
		}
	case 5: // the same again
	default:
		s.Containers[g.IntN(len(s.Containers))].Version = g.version
	}
	g.slots[slot] = s
}

func (g *generator) submit(slot int, after time.Duration) {
	s := g.slots[slot]
	g.wanted[slot] = true
	g.add(step{After: after, Act: actSubmit, Slot: slot, File: s.File, Shape: &s})
}

// script says what a container of the pod does from its next attempt on.
func (g *generator) script(slot int, after time.Duration) {
	s := g.slots[slot]
	for _, c := range s.Init {
		scripts := []runtimetest.Script{{Lives: g.pause(10 * time.Second)}}
		if g.chance(4) {
			scripts = append([]runtimetest.Script{{Lives: g.pause(5 * time.Second), ExitCode: 1}}, scripts...)
		}
		g.add(step{After: after, Act: actScript, Slot: slot, File: s.File, Container: c.Name, Scripts: scripts})
		after = 0
	}
	for _, c := range s.Containers {
		if !g.chance(2) {
			continue
		}
		var scripts []runtimetest.Script
		switch g.IntN(7) {
		case 0: // it crashes for a while
			for range 1 + g.IntN(7) {
				scripts = append(scripts, runtimetest.Script{Lives: g.pause(30 * time.Second), ExitCode: g.IntN(2), OOM: g.chance(5)})
			}
			scripts = append(scripts, runtimetest.Script{})
		case 1: // or for ever
			scripts = []runtimetest.Script{{Lives: g.pause(time.Minute), ExitCode: g.IntN(3)}}
		case 2: // or after it was well for long enough
			scripts = []runtimetest.Script{{Lives: 11 * time.Minute, ExitCode: 1}}
		case 3:
			scripts = []runtimetest.Script{{IgnoreTERM: true}}
		case 4:
			scripts = []runtimetest.Script{{StopTakes: g.pause(30 * time.Second), StopCode: g.IntN(2)}}
		case 5:
			scripts = []runtimetest.Script{{Broken: "exec: no such file"}, {}}
		case 6:
			scripts = []runtimetest.Script{{}}
		}
		g.add(step{After: after, Act: actScript, Slot: slot, File: s.File, Container: c.Name, Scripts: scripts})
		after = 0
	}
}

func (g *generator) step() {
	total := 0
	for _, w := range g.acts {
		total += w.weight
	}
	n := g.IntN(total)
	var a act
	for _, w := range g.acts {
		if n -= w.weight; n < 0 {
			a = w.act
			break
		}
	}
	after := g.pause(20 * time.Second)
	if g.chance(6) {
		after = g.pause(10 * time.Minute)
	}
	slot := g.IntN(len(g.slots))
	switch a {
	case actSubmit:
		if g.wanted[slot] {
			g.edit(slot)
		}
		g.submit(slot, after)
		return
	case actWithdraw:
		g.wanted[slot] = false
		grace := -1
		if g.chance(3) {
			grace = g.IntN(30)
		}
		g.add(step{After: after, Act: a, Slot: slot, File: g.slots[slot].File, N: grace})
		return
	case actScript:
		g.script(slot, after)
		return
	}
	g.add(g.disturb(step{After: after, Act: a, Slot: slot, File: g.slots[slot].File}))
}

// disturb fills in what a step needs that is about no manifest.
func (g *generator) disturb(s step) step {
	list := g.slots[s.Slot].Containers
	switch s.Act {
	case actExit:
		s.Container, s.N = list[g.IntN(len(list))].Name, g.IntN(3)
	case actOOM, actStop, actKill, actStart, actPause, actRemove:
		s.Container = list[g.IntN(len(list))].Name
	case actUntag:
		s.N = g.IntN(2)
	case actFault:
		s.Fault = g.fault()
	case actStopped, actMute, actRegistry, actFull:
		s.D = g.pause(2 * time.Minute)
	case actHung:
		s.D = g.pause(4 * time.Minute)
	case actCrash:
		s.N, s.D = 1+int(math.Exp(g.Float64()*math.Log(300))), g.pause(10*time.Second)
		if g.chance(3) {
			s.M = 1 + int(math.Exp(g.Float64()*math.Log(200)))
		}
	case actRestart:
		s.D = g.pause(time.Minute)
	case actReboot, actPowerCut:
		s.N, s.D, s.Keep = g.IntN(2), g.pause(5*time.Minute), float64(g.IntN(5))/4
		if g.chance(2) {
			s.Keep = g.Float64()
		}
	case actClock:
		s.D = g.pause(30 * 24 * time.Hour)
		if g.chance(2) {
			s.D = -s.D
		}
	}
	return s
}

var faulty = []runtimetest.Op{
	runtimetest.OpCreateSandbox, runtimetest.OpStartSandbox, runtimetest.OpRemoveSandbox, runtimetest.OpCreateContainer, runtimetest.OpStartContainer,
	runtimetest.OpStopContainer, runtimetest.OpRemoveContainer, runtimetest.OpEnsureImage, runtimetest.OpEnsureVolumes, runtimetest.OpRemoveVolumes,
	runtimetest.OpList, runtimetest.OpListImages, runtimetest.OpInspectContainer, runtimetest.OpInspectSandbox, runtimetest.OpEvents,
}

// classes leaves out that something is not found: that is the fake's to say.
var classes = []pod.Class{pod.Unavailable, pod.Internal, pod.Invalid, pod.Conflict}

func (g *generator) fault() *runtimetest.Fault {
	f := &runtimetest.Fault{Op: faulty[g.IntN(len(faulty))], Times: 1 + g.IntN(3), After: g.IntN(3), Applied: g.chance(2)}
	switch g.IntN(5) {
	case 0, 1:
		f.Class = classes[g.IntN(len(classes))]
		if f.Class == pod.Invalid { // who refuses has not done it
			f.Applied = false
		}
	case 2:
		f.Hang = true
	case 3:
		f.Delay = g.pause(2 * time.Minute)
	case 4:
		f.Silent, f.Applied = true, false
		if f.Op == runtimetest.OpStartContainer && g.chance(2) {
			f.DieAfter = g.pause(20 * time.Second)
		}
		if g.chance(3) {
			f.Lie = true
		}
	}
	return f
}
