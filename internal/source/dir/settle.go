package dir

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// writers says whether somebody has a file open for writing.
type writers int

const (
	noWriters writers = iota
	someWriters
	unknownWriters // the file system or our rights do not let us know
)

// writersOf finds out by asking for a read lease, which the kernel refuses while
// the file is open for writing (fcntl(2), F_SETLEASE). The lease is given back
// at once: a writer must not have to wait for us.
func writersOf(f *os.File) writers {
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK)
	switch {
	case errors.Is(err, unix.EAGAIN):
		return someWriters
	case err != nil:
		return unknownWriters
	}
	// Nothing can be done if this fails; closing the file ends the lease too.
	_, _ = unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return noWriters
}

// Times of settling.
const (
	// quietTime is how long a file must stay the same before it is read where
	// writers can't be seen.
	quietTime = 100 * time.Millisecond
	// patience is how long a file that stays open for writing is waited for; it
	// is read then all the same once it has been the same for openQuietTime.
	// Somebody who keeps a manifest open must not keep it from working.
	patience      = 5 * time.Second
	openQuietTime = time.Second
	// The first and the longest wait between two looks at a file that is open.
	firstLook = 500 * time.Microsecond
	lastLook  = 100 * time.Millisecond
)

// sighting is what is remembered of a file that is not settled.
type sighting struct {
	signature signature
	since     time.Time // when it was first seen so
	unsettled time.Time // when it was first found unsettled
}

// settled decides whether a file may be read now, and else how long to wait
// before the next look.
func settled(w writers, seen sighting, now time.Time) (wait time.Duration) {
	same := now.Sub(seen.since)
	switch w {
	case noWriters:
		return 0
	case someWriters:
		elapsed := now.Sub(seen.unsettled)
		if elapsed >= patience && same >= openQuietTime {
			return 0
		}
		// Half the time waited so far: the delay after a long write stays in
		// proportion to it.
		return min(max(elapsed/2, firstLook), lastLook)
	default:
		age := now.Sub(time.Unix(0, seen.signature.mtime))
		if same >= quietTime || age >= quietTime {
			return 0
		}
		return quietTime - max(same, 0)
	}
}
