package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	_ "modernc.org/sqlite" // the driver by which the agent's database is watched

	"github.com/jmoiron/sqlx"
)

const (
	restFor = time.Minute
	// restAfter is how long the agent is left alone before: its garbage
	// collector returns what the start took.
	restAfter = 30 * time.Second
)

// measureRest: what the agent does while nothing changes, and what it makes the
// Podman service do, over what that does with no agent.
func measureRest(ctx context.Context, b *bench) (rows []row, err error) {
	pods, err := b.inhabited(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, b.agent.run(ctx), b.agent.removeAll(ctx, pods)) }()
	service, err := listenerOf(b.raw.socket)
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, restAfter); err != nil {
		return nil, err
	}
	writes, err := watchWrites(filepath.Join(b.dir, "agent", "podstead.db"))
	if err != nil {
		return nil, err
	}
	agentBusy, serviceBusy := stopwatch(b.agent.pid()), stopwatch(service)
	if err := pause(ctx, restFor); err != nil {
		return nil, err
	}
	agentCPU, err := agentBusy()
	if err != nil {
		return nil, err
	}
	serviceCPU, err := serviceBusy()
	if err != nil {
		return nil, err
	}
	wrote, err := writes()
	if err != nil {
		return nil, err
	}
	memory, err := memoryOf(b.agent.pid())
	if err != nil {
		return nil, err
	}
	b.agent.end()
	if err := pause(ctx, restAfter); err != nil {
		return nil, err
	}
	aloneBusy := stopwatch(service)
	if err := pause(ctx, restFor); err != nil {
		return nil, err
	}
	aloneCPU, err := aloneBusy()
	if err != nil {
		return nil, err
	}
	caused := max(0, serviceCPU-aloneCPU)
	what := fmt.Sprintf("at rest, %d pods, %s: ", b.pods, restFor)
	percent := func(d time.Duration) float64 { return 100 * float64(d) / float64(restFor) }
	return []row{
		{what: what + "database writes", ours: fmt.Sprint(wrote), unit: " writes", value: float64(wrote), aim: 0},
		{
			what: what + "CPU of agent and, for it, of Podman", unit: " % of a core", value: percent(agentCPU + caused), aim: 0.2,
			ours: fmt.Sprintf("%.2f %% + %.2f %%", percent(agentCPU), percent(caused)), against: fmt.Sprintf("Podman alone %.2f %%", percent(aloneCPU)),
		},
		{what: what + "resident memory", unit: " MB", value: memory.resident, aim: 60, ours: fmt.Sprintf("%.1f MB", memory.resident)},
		{what: what + "anonymous memory", unit: " MB", value: memory.anonymous, aim: 25, ours: fmt.Sprintf("%.1f MB", memory.anonymous)},
	}, nil
}

// watchWrites counts, once it is asked, the commits to a database since, as
// another connection sees them, and the changes to its files: 0 is neither.
func watchWrites(path string) (count func() (int, error), err error) {
	db, err := sqlx.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	look := func() (version int, files string, err error) {
		if err := db.Get(&version, "PRAGMA data_version"); err != nil {
			return 0, "", err
		}
		for _, suffix := range []string{"", "-wal"} {
			info, err := os.Stat(path + suffix)
			if err != nil {
				return 0, "", err
			}
			files += fmt.Sprintln(info.Size(), info.ModTime())
		}
		return version, files, nil
	}
	version, files, err := look()
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return func() (int, error) {
		v, f, err := look()
		n := v - version
		if n == 0 && f != files {
			n = 1
		}
		return n, errors.Join(err, db.Close())
	}, nil
}

// listenerOf is the process that listens on a socket.
func listenerOf(socket string) (int, error) {
	c, err := net.Dial("unix", socket)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	raw, err := c.(*net.UnixConn).SyscallConn()
	if err != nil {
		return 0, err
	}
	var peer *unix.Ucred
	var peerErr error
	if err := raw.Control(func(fd uintptr) { peer, peerErr = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) }); err != nil {
		return 0, err
	}
	if peerErr != nil {
		return 0, peerErr
	}
	return int(peer.Pid), nil
}

// stopwatch answers how much CPU time a process has used since, its children
// that ended included.
func stopwatch(pid int) func() (time.Duration, error) {
	began, err := cpuOf(pid)
	return func() (time.Duration, error) {
		now, err2 := cpuOf(pid)
		return now - began, errors.Join(err, err2)
	}
}

// tick is the unit of /proc's times, USER_HZ: 10 ms on every Linux that Go runs on.
const tick = 10 * time.Millisecond

func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	_, after, _ := strings.Cut(string(stat), ") ") // the name may hold anything
	fields := strings.Fields(after)
	var ticks time.Duration
	for _, field := range fields[11:15] { // utime, stime, cutime, cstime: proc(5)
		n, err := strconv.Atoi(field)
		if err != nil {
			return 0, err
		}
		ticks += time.Duration(n)
	}
	return ticks * tick, nil
}

type memory struct{ resident, anonymous float64 } // MB of 10^6 bytes

func memoryOf(pid int) (memory, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return memory{}, err
	}
	var m memory
	for line := range strings.Lines(string(status)) {
		var kib float64
		switch {
		case strings.HasPrefix(line, "VmRSS:"):
			_, err = fmt.Sscanf(line, "VmRSS: %f kB", &kib)
			m.resident = kib * 1024 / 1e6
		case strings.HasPrefix(line, "RssAnon:"):
			_, err = fmt.Sscanf(line, "RssAnon: %f kB", &kib)
			m.anonymous = kib * 1024 / 1e6
		}
		if err != nil {
			return memory{}, err
		}
	}
	return m, nil
}
