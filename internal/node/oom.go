package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"regexp"
	"sync"
	"syscall"
)

// kernelLog gives one record a read: see dev-kmsg in the kernel's documentation
// (Documentation/ABI/testing/dev-kmsg).
const kernelLog = "/dev/kmsg"

// recordSize is more than any record takes.
const recordSize = 16 << 10

// maxKills bounds what is remembered. The kernel's log is a ring itself.
const maxKills = 4096

// oomKill matches the line that the kernel writes about each process it kills
// for memory (mm/oom_kill.c, since 4.20), and takes the container from the name
// that Podman gives to cgroups: libpod-<id>.
var oomKill = regexp.MustCompile(`oom-kill:.*task_memcg=[^,]*libpod-([0-9a-f]{64})`)

// OOMKills knows the containers in which the kernel killed a process for lack of
// memory since the machine was started. Podman knows too when conmon tells it,
// which with cgroups v1 some versions don't.
type OOMKills struct {
	mu     sync.Mutex
	killed map[string]struct{}
}

// Killed reports whether a process of the container with this Podman ID was
// killed for memory. It may have lived on.
func (o *OOMKills) Killed(id string) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	_, ok := o.killed[id]
	return ok
}

// Follow reads the kernel's log from its beginning until ctx ends. It owns no
// other goroutine than the caller's. The error says why the log can't be read;
// what it would have told is not known then.
func (o *OOMKills) Follow(ctx context.Context) error {
	f, err := os.OpenFile(kernelLog, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	stop := context.AfterFunc(ctx, func() { f.Close() })
	defer stop()
	record := make([]byte, recordSize)
	for {
		n, err := f.Read(record)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, syscall.EPIPE): // records were overwritten before they were read
		case errors.Is(err, io.EOF):
			return io.ErrUnexpectedEOF
		case err != nil:
			return err
		default:
			o.note(record[:n])
		}
	}
}

func (o *OOMKills) note(record []byte) {
	if !bytes.Contains(record, []byte("oom-kill:")) {
		return
	}
	m := oomKill.FindSubmatch(record)
	if m == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.killed == nil || len(o.killed) >= maxKills {
		o.killed = map[string]struct{}{}
	}
	o.killed[string(m[1])] = struct{}{}
}
