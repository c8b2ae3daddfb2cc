package podmanhost

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// programs are what a host's processes run, beside what runs in its containers.
var programs = []string{"podman", "conmon", "runc", "crun", "netavark", "aardvark-dns", "docker-registry", "podsteadd"}

// process is one line of the process table.
type process struct {
	pid, parent int
	zombie      bool
}

// stat reads /proc/PID/stat; the command in parentheses may hold anything.
func stat(pid int) (fields []string, ok bool) {
	content, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil, false
	}
	end := bytes.LastIndexByte(content, ')')
	if end < 0 {
		return nil, false
	}
	fields = strings.Fields(string(content[end+1:]))
	return fields, len(fields) > 19
}

// gone is the start time of what does not run.
const gone = "gone"

// startTime is when the process started, in clock ticks since boot.
func startTime(pid int) string {
	fields, ok := stat(pid)
	if !ok || fields[0] == "Z" || fields[0] == "X" {
		return gone
	}
	return fields[19]
}

func processes() []process {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var all []process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		fields, ok := stat(pid)
		if !ok {
			continue
		}
		parent, err := strconv.Atoi(fields[1])
		if err != nil {
			continue
		}
		all = append(all, process{pid: pid, parent: parent, zombie: fields[0] == "Z" || fields[0] == "X"})
	}
	return all
}

// members are the living processes of the host in dir: Podman's own programs,
// known by the configuration in their environment, and all their descendants
// (conmon adopts what a container's processes leave behind). The caller and its
// ancestors are none of them.
func members(dir string) []int {
	all := processes()
	children := map[int][]int{}
	parents := map[int]int{}
	zombies := map[int]bool{}
	for _, p := range all {
		children[p.parent] = append(children[p.parent], p.pid)
		parents[p.pid] = p.parent
		zombies[p.pid] = p.zombie
	}
	spared := map[int]bool{}
	for pid := os.Getpid(); pid > 1; pid = parents[pid] {
		spared[pid] = true
	}
	var found []int
	var add func(pid int)
	add = func(pid int) {
		if spared[pid] || slices.Contains(found, pid) {
			return
		}
		found = append(found, pid)
		for _, child := range children[pid] {
			add(child)
		}
	}
	for _, p := range all {
		if belongs(p.pid, dir) {
			add(p.pid)
		}
	}
	return slices.DeleteFunc(found, func(pid int) bool { return zombies[pid] })
}

func belongs(pid int, dir string) bool {
	proc := filepath.Join("/proc", strconv.Itoa(pid))
	exe, err := os.Readlink(filepath.Join(proc, "exe"))
	if err != nil || !slices.Contains(programs, filepath.Base(strings.TrimSuffix(exe, " (deleted)"))) {
		return false
	}
	content, err := os.ReadFile(filepath.Join(proc, "environ"))
	if err != nil {
		return false
	}
	return slices.Contains(strings.Split(string(content), "\x00"), environment(dir)[0])
}

// killMembers ends every process of the host. Each round kills what the round
// before it was quick enough to start.
func killMembers(dir string) error {
	return until(20*time.Second, "the processes of "+dir+" to end", func() bool {
		pids := members(dir)
		for _, pid := range pids {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		return len(pids) == 0
	})
}

// freezeMembers stops every process of the host, so that none sees another die.
func freezeMembers(dir string) {
	for _, pid := range members(dir) {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
}
