package dir

import (
	"slices"
	"strings"
)

// leftovers are the endings of files that editors, patch and package managers
// put beside the real ones.
var leftovers = []string{
	"~", ".swp", ".swo", ".swx", ".bak", ".orig", ".rej", ".tmp", ".temp", ".part", ".save", ".old", ".new",
	".dpkg-old", ".dpkg-new", ".dpkg-dist", ".dpkg-tmp", ".ucf-old", ".ucf-new", ".ucf-dist",
	".rpmsave", ".rpmnew", ".rpmorig", "___jb_tmp___", "___jb_old___",
}

// ignored reports files whose name says that they are no manifests.
func ignored(name string) bool {
	return strings.HasPrefix(name, ".") ||
		strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#") || // Emacs
		name == "4913" || // Vim tries with it whether it may write
		slices.ContainsFunc(leftovers, func(end string) bool { return strings.HasSuffix(name, end) })
}
