package volume

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// A mount that appears after the unmounting is not deleted through, whatever
// way the kernel offers to see it.
func TestTreeWithAMount(t *testing.T) {
	for name, open := range map[string]openDir{"openat2": openat2, "mount ID": openByMountID} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			outside := filepath.Join(dir, "outside") // on the same file system: the device is no help
			mounted := filepath.Join(dir, "tree", "a", "mounted")
			for _, d := range []string{outside, mounted, filepath.Join(dir, "tree", "b", "c")} {
				if err := os.MkdirAll(d, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			precious := filepath.Join(outside, "precious")
			if err := os.WriteFile(precious, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := unix.Mount(outside, mounted, "", unix.MS_BIND, ""); err != nil {
				t.Fatal(err)
			}
			unmounted := false
			defer func() {
				if !unmounted {
					if err := unix.Unmount(mounted, 0); err != nil {
						t.Error(err)
					}
				}
			}()
			var where *os.PathError
			err := removeTree(t.Context(), dir, "tree", open)
			if !errors.Is(err, errMounted) || !errors.As(err, &where) || where.Path != mounted {
				t.Errorf("error %v", err)
			}
			if _, err := os.Stat(precious); err != nil {
				t.Fatalf("deleted through the mount: %v", err)
			}
			if err := unix.Unmount(mounted, 0); err != nil {
				t.Fatal(err)
			}
			unmounted = true
			for range 2 {
				if err := removeTree(t.Context(), dir, "tree", open); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := os.Lstat(filepath.Join(dir, "tree")); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("still there: %v", err)
			}
		})
	}
}
