package podmanhost

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// imagePath is the PATH of both images: Podman 4.3 gives a container none when its
// image has none.
const imagePath = "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// images are imported with the settings of the images they stand for.
var images = []struct {
	tar, name string
	changes   []string
}{
	{"busybox.tar", "docker.io/library/busybox:latest", []string{imagePath, `CMD ["sh"]`}},
	{"nginx.tar", "docker.io/library/nginx:latest", []string{
		imagePath, `CMD ["nginx","-g","daemon off;"]`, "EXPOSE 80", "STOPSIGNAL SIGQUIT",
	}},
}

// storeParts are the parts of an image store that name no path and no container,
// so that a copy of them is a store as well.
var storeParts = []string{"overlay", "overlay-images", "overlay-layers"}

// populate gives a new host both images and Podman's pause image. They are copied
// from a store that is made once per machine: an import costs a second of fsync,
// a copy 30 ms, and unlike additionalimagestores the copy can be changed by tests
// that remove and pull images.
func populate(dir string) error {
	template, err := template()
	if err != nil {
		return err
	}
	root := filepath.Join(dir, "root")
	if err := os.Mkdir(root, 0o700); err != nil {
		return err
	}
	args := []string{"-a", "--reflink=auto"}
	for _, part := range storeParts {
		args = append(args, filepath.Join(template, part))
	}
	return run(nil, "cp", append(args, root)...)
}

// template is the directory of the store to copy, made if this machine's cache has
// none for its Podman and images.
func template() (string, error) {
	tars, err := imageTars()
	if err != nil {
		return "", err
	}
	key, err := templateKey(tars)
	if err != nil {
		return "", err
	}
	cache := filepath.Dir(tars)
	unlock, err := lock(cache)
	if err != nil {
		return "", err
	}
	defer unlock()
	dir := filepath.Join(cache, "store-"+key)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	if err := makeTemplate(tars, dir); err != nil {
		return "", fmt.Errorf("make the image store %s: %w", dir, err)
	}
	return dir, nil
}

func makeTemplate(tars, dir string) (err error) {
	s, err := claim(os.Getpid())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove(s)) }()
	if err := configure(s, "127.0.0.1:1"); err != nil {
		return err
	}
	podman := func(args ...string) error { return run(environment(s.dir()), "podman", args...) }
	for _, image := range images {
		args := []string{"import", "--quiet"}
		for _, change := range image.changes {
			args = append(args, "--change", change)
		}
		if err := podman(append(args, filepath.Join(tars, image.tar), image.name)...); err != nil {
			return err
		}
	}
	// The first pod makes the pause image.
	if err := podman("pod", "create", "--name", "pause"); err != nil {
		return err
	}
	if err := podman("pod", "rm", "pause"); err != nil {
		return err
	}
	parts := dir + ".new"
	if err := errors.Join(os.RemoveAll(parts), os.Mkdir(parts, 0o700)); err != nil {
		return err
	}
	for _, part := range storeParts {
		if err := run(nil, "cp", "-a", filepath.Join(s.dir(), "root", part), parts); err != nil {
			return err
		}
	}
	// The cache outlives a machine that is switched off.
	if err := run(nil, "sync", "-f", parts); err != nil {
		return err
	}
	return os.Rename(parts, dir)
}

// templateKey changes with everything that the store is made from.
func templateKey(tars string) (string, error) {
	podman, err := exec.LookPath("podman")
	if err != nil {
		return "", err
	}
	files := []string{podman}
	sum := sha256.New()
	for _, image := range images {
		files = append(files, filepath.Join(tars, image.tar))
		fmt.Fprintln(sum, image)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return "", err
		}
		fmt.Fprintln(sum, file, info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(sum.Sum(nil))[:12], nil
}

// imageTars is the directory in which scripts/testimages has made the root trees.
func imageTars() (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	out, err := output(nil, filepath.Join(root, "scripts/testimages"))
	return strings.TrimSpace(out), err
}

// repository is the root of the checkout: `go test` runs in the package's
// directory, the scripts in the root.
func repository() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no go.mod above %s: run from a checkout", dir)
		}
	}
}
