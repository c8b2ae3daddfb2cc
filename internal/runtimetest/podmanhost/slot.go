package podmanhost

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
)

// Base holds the directories of all hosts of this machine. It is short because
// the paths of unix sockets below it may have 107 bytes.
const Base = "/tmp/podstead-hosts"

// slots is how many hosts can exist at a time. Each has a directory, a bridge and
// a subnet, numbered alike; creating the directory is what claims the number.
const slots = 64

// slot numbers a host. Everything of a host that has a machine-wide name is named
// by it.
type slot int

func (s slot) dir() string { return filepath.Join(Base, strconv.Itoa(int(s))) }

// bridge is the interface of the host's default network.
func (s slot) bridge() string { return fmt.Sprintf("pdst%d", int(s)) }

func (s slot) subnet() netip.Prefix {
	return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, byte(s * 4), 0}), 22)
}

func slotOf(dir string) (slot, error) {
	n, err := strconv.Atoi(filepath.Base(dir))
	if err != nil || filepath.Dir(filepath.Clean(dir)) != Base || n < 0 || n >= slots {
		return 0, fmt.Errorf("%s is not the directory of a podmanhost, which is %s/N", dir, Base)
	}
	return slot(n), nil
}

// claim takes a free slot for the owner, after removing hosts whose owner is gone.
func claim(owner int) (slot, error) {
	if owner != nobody && startTime(owner) == gone {
		return 0, fmt.Errorf("process %d, for which a host is asked, does not run", owner)
	}
	unlock, err := lock(Base)
	if err != nil {
		return 0, err
	}
	defer unlock()
	if err := reap(); err != nil {
		return 0, err
	}
	for s := range slot(slots) {
		if s.taken() {
			continue
		}
		err := os.Mkdir(s.dir(), 0o700)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return 0, err
		}
		return s, os.WriteFile(s.ownerFile(), []byte(ownerMark(owner)), 0o600)
	}
	return 0, fmt.Errorf("all %d hosts under %s are in use: remove one with scripts/podman-private down DIR", slots, Base)
}

// taken says whether an address of this machine lies in the slot's subnet.
func (s slot) taken() bool {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	for _, address := range addresses {
		if prefix, err := netip.ParsePrefix(address.String()); err == nil && s.subnet().Overlaps(prefix.Masked()) {
			return true
		}
	}
	return false
}

// Reap removes every host whose owner is gone.
func Reap() error {
	unlock, err := lock(Base)
	if err != nil {
		return err
	}
	defer unlock()
	return reap()
}

func reap() error {
	entries, err := os.ReadDir(Base)
	if err != nil {
		return err
	}
	var failed error
	for _, entry := range entries {
		s, err := slotOf(filepath.Join(Base, entry.Name()))
		if err != nil || s.owned() {
			continue
		}
		failed = errors.Join(failed, remove(s))
	}
	return failed
}

func (s slot) ownerFile() string { return filepath.Join(s.dir(), "owner") }

// owned says whether the process that the host was created for still runs. A host
// created for nobody is kept until it is removed by name.
func (s slot) owned() bool {
	pid, runs := marked(s.ownerFile())
	return pid == nobody || runs
}

// nobody is the owner of a host that is kept.
const nobody = 0

// marked reads an owner's mark from a file, or that of a service: which process it
// names, -1 if none, and whether that still runs.
func marked(file string) (pid int, runs bool) {
	mark, err := os.ReadFile(file)
	if err != nil {
		return -1, false
	}
	if _, err := fmt.Sscan(string(mark), &pid); err != nil {
		return -1, false
	}
	return pid, pid > 0 && startTime(pid) != gone && string(mark) == ownerMark(pid)
}

// ownerMark identifies a process for as long as the machine runs: its start time
// tells it from a later one with the same number.
func ownerMark(pid int) string {
	if pid == nobody {
		return strconv.Itoa(nobody)
	}
	return fmt.Sprintf("%d %s", pid, startTime(pid))
}

// lock serialises hosts of all processes on the directory.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX); err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}
