package simulate

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/runtimetest"
)

// settles is how long a pod may need after the last thing went wrong: a call
// that hangs ends after two minutes, or with its grace, and the longest back-off
// is five. A container that crashed all the while has to end once more.
const settles = 12 * time.Minute

// report is what came of a simulation.
type report struct {
	found []finding
	trace *trace
	stats stats
}

// simulate carries a plan out in a bubble of its own.
func simulate(t *testing.T, p plan) (r report) {
	t.Helper()
	root, err := os.MkdirTemp(scratch(), "simulate")
	if err != nil {
		t.Fatal(err)
	}
	template() // not in the bubble
	uuid.SetRand(rand.NewChaCha8(chaCha(p.Seed)))
	defer uuid.SetRand(nil)
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, p, root)
		defer func() {
			w.spare()
			w.explain()
			w.close()
			r = report{w.found, &w.trace, w.stats}
		}()
		for _, s := range p.Steps {
			w.until(time.Now().Add(s.After))
			w.trace.add("plan", s.String(), "")
			w.step(s)
			w.checkAlways()
			if len(w.found) > 0 {
				return
			}
		}
		w.until(time.Now())
		w.spare()
		w.judge()
	})
	return r
}

// spare lets the agent live on: it is asked what it has on record.
func (w *world) spare() {
	w.fuse = 0
	if w.gate != nil {
		w.gate.arm(0)
	}
}

func chaCha(seed uint64) (key [32]byte) {
	binary.LittleEndian.PutUint64(key[:], seed)
	return key
}

// scratch is a directory in memory if there is one: an fsync there is free.
func scratch() string {
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() && os.Getenv("TMPDIR") == "" {
		return "/dev/shm"
	}
	return ""
}

func (w *world) step(s step) {
	w.stats.Steps++
	w.stats.Acts[s.Act]++
	if s.Act.disturbs() {
		w.disturb()
	}
	key := keyOf(s.Slot, s.File)
	switch s.Act {
	case actSubmit:
		w.submit(key, *s.Shape)
	case actWithdraw:
		w.withdraw(key, s)
	case actScript:
		w.fake.SetScript(key.Name+"/"+s.Container, s.Scripts...)
	case actCalm:
		w.calm(s.D)
	case actExit, actOOM, actInfra:
		w.happen(key, s)
	case actStop, actKill, actStart, actPause, actRemove, actRemovePod, actUntag:
		w.meddle(key, s)
	case actCrash, actRestart, actReboot, actPowerCut, actFull, actClock:
		w.shake(s)
	default:
		w.breakRuntime(s)
	}
}

func (w *world) submit(key pod.Key, s shape) {
	set, err := s.parse()
	w.must(err)
	w.wishes.add(key, s.File, &wish{Shape: &s, Made: time.Now(), set: set})
	w.retryAt = time.Now()
}

func (w *world) withdraw(key pod.Key, s step) {
	last := w.wishes.latest(key)
	if last == nil || last.Shape == nil {
		return // it was not wanted
	}
	n := &wish{Made: time.Now(), Grace: time.Duration(last.Shape.Grace) * time.Second}
	if s.N >= 0 && !s.File {
		grace := time.Duration(s.N) * time.Second
		n.Grace, n.grace = grace, &grace
	}
	w.wishes.add(key, s.File, n)
	w.retryAt = time.Now()
}

// newest is the latest attempt at a container, of those that run if live.
func (w *world) newest(key pod.Key, name string, live bool) (c pod.Container) {
	for _, found := range w.fake.Containers() {
		if found.Key == key && found.Container == name && found.State.Live() == live {
			c = found
		}
	}
	return c
}

func (w *world) sandbox(key pod.Key) (b pod.Sandbox) {
	for _, found := range w.fake.Sandboxes() {
		if found.Key == key {
			b = found
		}
	}
	return b
}

// happen is what containers do by themselves.
func (w *world) happen(key pod.Key, s step) {
	switch s.Act {
	case actExit:
		w.fake.Exit(w.newest(key, s.Container, true).ID, s.N)
	case actOOM:
		w.fake.OOM(w.newest(key, s.Container, true).ID)
	case actInfra:
		w.fake.KillProcess(w.sandbox(key).InfraID)
	}
}

// meddle is what people do behind the agent's back.
func (w *world) meddle(key pod.Key, s step) {
	live := w.newest(key, s.Container, true).ID
	switch s.Act {
	case actStop:
		w.fake.StopByHand(live)
	case actKill:
		w.fake.KillByHand(live)
	case actStart:
		w.fake.StartByHand(w.newest(key, s.Container, false).ID)
	case actPause:
		w.fake.Pause(live)
	case actRemove:
		w.fake.RemoveBehind(live)
	case actRemovePod:
		w.fake.RemoveBehind(w.sandbox(key).ID)
	case actUntag:
		w.fake.Images().Remove([]string{busybox, nginx}[s.N])
	}
}

func (w *world) breakRuntime(s step) {
	switch s.Act {
	case actFault:
		w.fake.Inject(*s.Fault)
	case actStopped:
		w.fake.StopService()
		w.later(s.D, w.fake.StartService)
	case actHung:
		w.fake.HangService()
		w.later(s.D, w.fake.StartService)
	case actStreams:
		w.fake.BreakStreams()
	case actMute:
		w.fake.Mute(true)
		w.later(s.D, func() { w.fake.Mute(false) })
	case actRegistry:
		w.registry(runtimetest.RegistryUnreachable)
		w.later(s.D, func() { w.registry(runtimetest.RegistryHas) })
	}
}

func (w *world) registry(a runtimetest.Answer) {
	for _, name := range []string{busybox, nginx} {
		w.fake.Images().SetRegistry(name, runtimetest.Registry{Answer: a, Takes: 2 * time.Second})
	}
}

// shake is what happens to the agent and the machine.
func (w *world) shake(s step) {
	back := time.Now().Add(s.D)
	switch s.Act {
	case actCrash:
		w.startAt, w.fuse = back, s.M
		if w.gate != nil {
			w.gate.arm(s.N)
		}
	case actRestart:
		w.stopAgent()
		w.startAt = back
	case actReboot, actPowerCut:
		w.cutOff(s, back)
	case actFull:
		w.setFull(true)
		w.later(s.D, func() { w.setFull(false) })
	case actClock:
		w.clock.jump(s.D)
	}
}

func (w *world) setFull(full bool) {
	w.full = full
	if w.gate != nil {
		w.gate.setFull(full)
	}
}

// cutOff ends everything that runs on the machine.
func (w *world) cutOff(s step, back time.Time) {
	left := cut{}
	if w.gate != nil {
		left = foresee(w.gate.path, w.gate.synced)
		w.kill(back)
		if s.Act == actPowerCut {
			kept, err := left.apply(filepath.Join(w.dir, databaseFile), s.Keep, w.noise)
			w.must(err)
			w.synced = kept
			w.cuts = append(w.cuts, time.Now())
			w.trace.add("disk", "has", fmt.Sprintf("%d of %d frames, %d synced", kept.frames, left.committed.frames, left.floor.frames))
		}
	}
	w.startAt = back
	w.cutPower()
	w.stragglers.Wait()
	w.powered, w.cutPower = contextOf(w.t)
	w.fake.Reboot([]pod.RunState{pod.RunCreated, pod.RunExited}[s.N])
	w.fake.StartService()
	w.boots++
}

// calm mends everything, waits for it to settle, and for a rest.
func (w *world) calm(rest time.Duration) {
	w.timers = nil
	w.fake.ClearFaults()
	w.fake.Mute(false)
	w.fake.StartService()
	w.registry(runtimetest.RegistryHas)
	w.setFull(false)
	w.spare()
	for _, c := range w.fake.Containers() {
		w.fake.Unpause(c.ID)
	}
	w.heal()
	w.until(time.Now().Add(settles))
	for range 2 { // what was created before may have to end once more
		if at := w.fake.Restless(); !at.IsZero() {
			w.until(at.Add(settles))
		}
	}
	w.checkSettled()
	w.settled()
	if len(w.found) == 0 {
		w.rest(rest)
	}
}

// heal has containers that keep ending end no more, from their next attempt on.
func (w *world) heal() {
	order, pods := w.wishes.snapshot()
	for _, key := range order {
		for _, n := range pods[key] {
			if n.Shape == nil {
				continue
			}
			for _, c := range n.Shape.Containers {
				w.fake.SetScript(key.Name+"/"+c.Name, runtimetest.Script{})
			}
			for _, c := range n.Shape.Init {
				w.fake.SetScript(key.Name+"/"+c.Name, runtimetest.Script{Lives: time.Second})
			}
		}
	}
}
