package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"podstead.io/podstead/internal/wire"
)

// Asker asks the agent. Its errors are shown as they are.
type Asker interface {
	Version(ctx context.Context) (wire.Version, error)
	Agent(ctx context.Context) (wire.Agent, error)
	// NotReady lists the checks of /readyz that fail, with their reasons.
	NotReady(ctx context.Context) ([]string, error)
}

// Options say where to look.
type Options struct {
	Agent   Asker
	Socket  string // the agent's
	Client  string // the client's version
	RootDir string // of an agent that does not answer
	// PodmanURL is that of an agent that does not answer; empty: the system's
	// or the user's.
	PodmanURL string
	Getenv    func(string) string
	Now       time.Time
}

// Gather collects the facts. It asks the agent and Podman, each for a few
// seconds at most.
func Gather(ctx context.Context, o Options) Facts {
	f := Facts{Now: o.Now, Agent: askAgent(ctx, o)}
	root, url := o.RootDir, o.PodmanURL
	if f.Agent.Err == "" {
		root, url = f.Agent.Info.RootDir, f.Agent.Info.PodmanURL
	}
	if url == "" {
		url = defaultPodmanURL(o.Getenv)
	}
	f.Podman = askPodman(ctx, url)
	if f.Podman.Info != nil {
		f.Storage = disk(f.Podman.Info.Store.GraphRoot)
	}
	_, err := os.Stat("/run/systemd/system") // sd_booted(3)
	f.Systemd = err == nil
	f.Hybrid = hybrid()
	f.Process = process(o.Getenv)
	f.Network = Network{Netavark: find("netavark"), Iptables: find("iptables"), Nft: find("nft")}
	f.Pause = find("catatonit")
	f.Root = disk(root)
	for _, path := range f.Agent.Info.ManifestPaths {
		f.Manifests = append(f.Manifests, directory(path))
	}
	f.Clock = clock()
	f.Inotify = inotify()
	f.Files = files()
	return f
}

func askAgent(ctx context.Context, o Options) Agent {
	a := Agent{Socket: o.Socket, Client: o.Client}
	v, err := o.Agent.Version(ctx)
	if err == nil {
		a.Version = v.Podstead
		a.Info, err = o.Agent.Agent(ctx)
	}
	if err == nil {
		a.NotReady, err = o.Agent.NotReady(ctx)
	}
	if err != nil {
		a.Err = err.Error()
	}
	return a
}

// find looks for a program where Podman does: among its helpers, in PATH, and
// where root's PATH has what a user's may not.
func find(name string) string {
	for _, dir := range []string{"/usr/local/libexec/podman", "/usr/local/lib/podman", "/usr/libexec/podman", "/usr/lib/podman"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// disk measures the file system of path, or of the nearest directory above that
// exists.
func disk(path string) Disk {
	d := Disk{Path: path}
	var s unix.Statfs_t
	for at := path; ; at = filepath.Dir(at) {
		err := unix.Statfs(at, &s)
		if err == nil {
			break
		}
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			d.Err = fmt.Sprintf("%s: %v", at, err)
			return d
		}
	}
	block := uint64(s.Bsize) //nolint:gosec // never negative
	d.TotalBytes, d.FreeBytes = s.Blocks*block, s.Bavail*block
	d.TotalInodes, d.FreeInodes = s.Files, s.Ffree
	d.ReadOnly = s.Flags&unix.ST_RDONLY != 0
	switch uint32(s.Type) { //nolint:gosec // the magic numbers have 32 bits
	case unix.TMPFS_MAGIC:
		d.Type = "tmpfs"
	case unix.NFS_SUPER_MAGIC:
		d.Type = "nfs"
	case 0xff534d42, unix.SMB2_SUPER_MAGIC:
		d.Type = "cifs"
	case unix.V9FS_MAGIC:
		d.Type = "9p"
	}
	return d
}

func directory(path string) Directory {
	d := Directory{Path: path}
	if _, err := os.ReadDir(path); err != nil {
		d.Err = err.Error()
	}
	return d
}

func clock() Clock {
	var t unix.Timex
	state, err := unix.Adjtimex(&t)
	if err != nil {
		return Clock{Err: err.Error()}
	}
	return Clock{Synchronised: state != unix.TIME_ERROR && t.Status&unix.STA_UNSYNC == 0}
}

func inotify() Inotify {
	i := Inotify{MaxInstances: kernelNumber("inotify/max_user_instances"), MaxWatches: kernelNumber("inotify/max_user_watches")}
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC)
	if err != nil {
		i.Err = err.Error()
		return i
	}
	defer unix.Close(fd) //nolint:errcheck // it was only tried
	if _, err := unix.InotifyAddWatch(fd, "/", unix.IN_CREATE); err != nil {
		i.Err = err.Error()
	}
	return i
}

// hybrid reads the controllers of cgroup v2 where it is mounted beside v1.
func hybrid() []string {
	text, err := os.ReadFile("/sys/fs/cgroup/unified/cgroup.controllers")
	if err != nil {
		return nil // v2 alone, or v1 alone
	}
	return strings.Fields(string(text))
}

// kernelNumber is a number under /proc/sys/fs, 0 when there is none.
func kernelNumber(name string) uint64 {
	text, err := os.ReadFile(filepath.Join("/proc/sys/fs", name))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// files reads file-nr: open, free, most.
func files() Files {
	text, err := os.ReadFile("/proc/sys/fs/file-nr")
	if err != nil {
		return Files{Err: err.Error()}
	}
	var f Files
	var free uint64
	if _, err := fmt.Sscan(string(text), &f.Open, &free, &f.Max); err != nil {
		return Files{Err: fmt.Sprintf("/proc/sys/fs/file-nr: %v", err)}
	}
	return f
}
