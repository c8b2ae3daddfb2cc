package podmanhost

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// netnsDir is where Podman binds network namespaces, for all of its storages.
const netnsDir = "/run/netns"

// remove ends and removes all that belongs to the slot, whoever made it. It does
// not go through Podman, which may be what is broken.
func remove(s slot) error {
	dir := s.dir()
	if err := killMembers(dir); err != nil {
		return err
	}
	ids := containerIDs(dir)
	err := errors.Join(
		removeNamespaces(s),
		removeBridge(s),
		removeRules(s),
		removeCgroups(ids),
		unmountBelow(dir),
	)
	if err != nil {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return os.RemoveAll(dir)
}

// unmountBelow detaches every mount under dir, the last one first.
func unmountBelow(dir string) error {
	for range 10 {
		points, err := mountsBelow(dir)
		if err != nil || len(points) == 0 {
			return err
		}
		for _, point := range slices.Backward(points) {
			if err := unix.Unmount(point, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("unmount %s: %w", point, err)
			}
		}
	}
	return fmt.Errorf("mounts keep appearing under %s", dir)
}

func mountsBelow(dir string) ([]string, error) {
	file, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	octal := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	var points []string
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			points = append(points, octal.Replace(fields[4]))
		}
	}
	return points, lines.Err()
}

// removeNamespaces unbinds the network namespaces of the host: those that its
// containers' configurations name and those with an address in its subnet.
func removeNamespaces(s slot) error {
	named := configuredNamespaces(s.dir())
	entries, err := os.ReadDir(netnsDir)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		return err
	}
	var failed error
	for _, entry := range entries {
		path := filepath.Join(netnsDir, entry.Name())
		if !strings.HasPrefix(entry.Name(), "netns-") || !named[path] && !s.addressedIn(path) {
			continue
		}
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			failed = errors.Join(failed, fmt.Errorf("unmount %s: %w", path, err))
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			failed = errors.Join(failed, err)
		}
	}
	return failed
}

func configuredNamespaces(dir string) map[string]bool {
	paths := map[string]bool{}
	files, _ := filepath.Glob(filepath.Join(dir, "root/overlay-containers/*/userdata/config.json"))
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		var spec struct {
			Linux struct {
				Namespaces []struct{ Type, Path string }
			}
		}
		if json.Unmarshal(content, &spec) != nil {
			continue
		}
		for _, namespace := range spec.Linux.Namespaces {
			if namespace.Type == "network" {
				paths[namespace.Path] = true
			}
		}
	}
	return paths
}

// addressedIn says whether an interface in the network namespace has an address of
// the slot's subnet. It looks from a thread of its own, which dies with the look.
func (s slot) addressedIn(path string) bool {
	found := make(chan bool)
	go func() {
		runtime.LockOSThread()
		found <- enterNamespace(path) == nil && s.taken()
	}()
	return <-found
}

func enterNamespace(path string) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Setns(fd, unix.CLONE_NEWNET)
}

func removeBridge(s slot) error {
	if _, err := net.InterfaceByName(s.bridge()); err != nil {
		return nil
	}
	return run(nil, "ip", "link", "delete", s.bridge())
}

// containerIDs are the pods and containers that the host ever had, as far as its
// event log and its storage tell.
func containerIDs(dir string) map[string]bool {
	ids := map[string]bool{}
	stored, _ := filepath.Glob(filepath.Join(dir, "root/overlay-containers/*/userdata"))
	for _, path := range stored {
		ids[filepath.Base(filepath.Dir(path))] = true
	}
	logs, _ := filepath.Glob(filepath.Join(dir, "tmp/events/events.log*"))
	for _, log := range logs {
		content, err := os.ReadFile(log)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(content)) {
			var event struct{ ID, Type string }
			if json.Unmarshal([]byte(line), &event) == nil && (event.Type == "pod" || event.Type == "container") {
				ids[event.ID] = true
			}
		}
	}
	return ids
}

// removeCgroups removes the empty cgroups that Podman and runc leave in some
// hierarchies, wherever the pods' cgroups were put.
func removeCgroups(ids map[string]bool) error {
	var mine []string
	err := filepath.WalkDir("/sys/fs/cgroup", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return nil
		}
		name := strings.TrimSuffix(entry.Name(), ".scope")
		if ids[name] || ids[name[strings.LastIndexByte(name, '-')+1:]] {
			mine = append(mine, path)
			return filepath.SkipDir
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, path := range mine {
		// A killed process leaves its cgroup a moment after it is gone.
		err := until(5*time.Second, "cgroup "+path+" to empty", func() bool { return removeCgroup(path) })
		if err != nil {
			return err
		}
	}
	return nil
}

// removeCgroup removes a cgroup and those below it, and says whether all are gone.
func removeCgroup(path string) bool {
	entries, err := os.ReadDir(path)
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	for _, entry := range entries {
		if entry.IsDir() && !removeCgroup(filepath.Join(path, entry.Name())) {
			return false
		}
	}
	err = unix.Rmdir(path)
	return err == nil || errors.Is(err, unix.ENOENT)
}
