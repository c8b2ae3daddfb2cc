package e2e

import (
	"testing"

	"golang.org/x/sys/unix"
)

// makeBlockDevice makes a node of a loop device that nothing uses. It is never
// opened.
func makeBlockDevice(t *testing.T, path string) {
	t.Helper()
	const loop, unused = 7, 99
	if err := unix.Mknod(path, unix.S_IFBLK|0o600, int(unix.Mkdev(loop, unused))); err != nil {
		t.Fatalf("make a block device: %v", err)
	}
}

// mountSmall mounts a tmpfs of the size, which the host unmounts when it is
// removed.
func mountSmall(t *testing.T, path, size string) {
	t.Helper()
	if err := unix.Mount("tmpfs", path, "tmpfs", 0, "size="+size); err != nil {
		t.Fatalf("mount a small disk: %v", err)
	}
}
