package node

import (
	"os"
	"path/filepath"
)

// isBridge reports whether the kernel says that the interface is a bridge.
func isBridge(name string) bool {
	_, err := os.Stat(filepath.Join("/sys/class/net", name, "bridge"))
	return err == nil
}
