package e2e

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
)

// lookEvery is the time between two looks of a witness. What lives for less than
// that may escape it.
const lookEvery = 20 * time.Millisecond

// identity is a container of a pod, whatever the attempt.
type identity struct{ uid, namespace, pod, container string }

func (i identity) String() string { return i.pod + "/" + i.container }

// name is the attempt's in Podman.
func (i identity) name(attempt string) string {
	return strings.Join([]string{"k8s", i.container, i.pod, i.namespace, i.uid, attempt}, "_")
}

// life is one process that a container had.
type life struct {
	id      string // the container's
	attempt string
	pid     int
	started string // clock ticks since boot
}

// witness watches which containers of a host run, by the machine's processes
// alone: it asks neither the agent nor Podman, who may both be dead.
type witness struct {
	dir      string           // the host's
	monitors map[int]*monitor // nil for processes that are none

	mu    sync.Mutex
	lost  map[string]bool            // containers, by ID or name, whose process Podman has lost
	alive map[identity]map[life]bool // at the last look
	lives map[identity]map[life]bool // since forget
	twice []string                   // what lived twice at once, described
}

// monitor is the conmon of a container.
type monitor struct {
	identity
	id, attempt string
	pidFile     string // where the number of the container's process is
}

// watchContainers watches until the test ends.
func watchContainers(t *testing.T, dir string) *witness {
	t.Helper()
	w := &witness{dir: dir, monitors: map[int]*monitor{}, lost: map[string]bool{}, alive: map[identity]map[life]bool{}, lives: map[identity]map[life]bool{}}
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(lookEvery)
		defer tick.Stop()
		for {
			select {
			case <-stop:
				return
			case <-tick.C:
				w.look()
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		if twice := w.duplicates(); len(twice) > 0 {
			t.Errorf("two of one container lived at once: %s", strings.Join(twice, "; "))
		}
	})
	return w
}

// look returns what lives now, and keeps it. What lived at the last look counts for
// as long as its process does, with or without a monitor.
func (w *witness) look() map[identity][]life {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, pid := range w.findMonitors() {
		m := w.monitors[pid]
		if l, ok := m.life(); ok {
			add(w.alive, m.identity, l)
		}
	}
	now := map[identity][]life{}
	for who, lives := range w.alive {
		maps.DeleteFunc(lives, func(l life, _ bool) bool { return startTime(l.pid) != l.started })
		for l := range lives {
			add(w.lives, who, l)
			now[who] = append(now[who], l)
		}
		if len(lives) > 1 {
			slices.SortFunc(now[who], func(a, b life) int { return cmp.Compare(a.started, b.started) })
			if said := fmt.Sprintf("%s of %s: %+v", who, who.uid, now[who]); !slices.Contains(w.twice, said) {
				w.twice = append(w.twice, said)
			}
		}
	}
	return now
}

func add(lives map[identity]map[life]bool, who identity, l life) {
	if lives[who] == nil {
		lives[who] = map[life]bool{}
	}
	lives[who][l] = true
}

// findMonitors returns the processes that are monitors of the host's containers.
func (w *witness) findMonitors() (found []int) {
	proc, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer func() { _ = proc.Close() }()
	entries, err := proc.Readdirnames(-1)
	if err != nil {
		return nil
	}
	present := make(map[int]bool, len(entries))
	for _, e := range entries {
		pid, err := strconv.Atoi(e)
		if err != nil {
			continue
		}
		present[pid] = true
		m, known := w.monitors[pid]
		if !known {
			m = w.monitorOf(pid)
			w.monitors[pid] = m
		}
		if m != nil {
			found = append(found, pid)
		}
	}
	maps.DeleteFunc(w.monitors, func(pid int, _ *monitor) bool { return !present[pid] })
	return found
}

// monitorOf reads the command line that Podman gives to conmon.
func (w *witness) monitorOf(pid int) *monitor {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil || !bytes.Contains(line, []byte("conmon\x00")) {
		return nil
	}
	words := strings.Split(string(line), "\x00")
	after := func(flag string) string {
		if i := slices.Index(words, flag); i >= 0 && i+1 < len(words) {
			return words[i+1]
		}
		return ""
	}
	name := strings.Split(after("-n"), "_")               // k8s, container, pod, namespace, UID, attempt
	exec := slices.Contains(words, "--exec-process-spec") // what runs beside the container's process
	if exec || len(name) != 6 || name[0] != "k8s" || !strings.HasPrefix(after("-b"), w.dir+"/") {
		return nil
	}
	return &monitor{identity: identity{uid: name[4], namespace: name[3], pod: name[2], container: name[1]}, id: after("-c"), attempt: name[5], pidFile: after("-p")}
}

// life is the container's process, if it has one by now that runs the container's
// own program.
func (m *monitor) life() (life, bool) {
	content, err := os.ReadFile(m.pidFile)
	if err != nil {
		return life{}, false
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(content)))
	if err != nil {
		return life{}, false
	}
	program, err := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), "exe"))
	if err != nil || strings.Contains(program, "runc") {
		return life{}, false
	}
	l := life{id: m.id, attempt: m.attempt, pid: pid, started: startTime(pid)}
	return l, l.started != ""
}

// startTime is when a process was started, in clock ticks since boot; empty: it
// has ended.
func startTime(pid int) string {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if fields[0] == "Z" || fields[0] == "X" {
		return ""
	}
	return fields[19]
}

// forget starts counting lives anew.
func (w *witness) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	clear(w.lives)
}

// duplicates are those seen since the watch began.
func (w *witness) duplicates() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.twice)
}

// pardon takes the next life of what Podman was starting when it died for the
// first: it does not know the process, which has to be replaced.
func (w *witness) pardon(containers []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range containers {
		w.lost[c] = true
	}
}

// beyond describes the containers that had more lives than they may have, and
// counts those lives. Infra containers go by the name POD; one life is the rule.
func (w *witness) beyond(allowed map[string]int) (count int, said []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for who, lives := range w.lives {
		most := max(allowed[who.container], 1)
		for l := range lives {
			if w.lost[l.id] || w.lost[who.name(l.attempt)] {
				most++
			}
		}
		if len(lives) > most {
			count += len(lives) - most
			said = append(said, fmt.Sprintf("%s had %d lives of %d: %v", who, len(lives), most, slices.Collect(maps.Keys(lives))))
		}
	}
	return count, said
}

// summary is what lives, for reading: infra containers and others.
func summary(alive map[identity][]life) (sandboxes, containers int) {
	for who, all := range alive {
		if who.container == pod.SandboxContainerName {
			sandboxes += len(all)
		} else {
			containers += len(all)
		}
	}
	return sandboxes, containers
}
