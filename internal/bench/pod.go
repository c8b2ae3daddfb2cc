package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const image = "docker.io/library/busybox:latest"

// podFiles is one pod to be started: its manifest, and the FIFOs through which
// its containers say that they run.
type podFiles struct {
	name       string
	containers []string
	dir        string // holds a FIFO for each container; mounted at /sync
}

func newPodFiles(root, name string, containers ...string) (podFiles, error) {
	p := podFiles{name: name, containers: containers, dir: filepath.Join(root, name)}
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return p, err
	}
	for _, c := range containers {
		if err := syscall.Mkfifo(filepath.Join(p.dir, c), 0o666); err != nil {
			return p, err
		}
	}
	return p, nil
}

// command is what a container runs: it obeys SIGTERM at once.
func (p podFiles) command(container string) []string {
	return []string{"/bin/sh", "-c", fmt.Sprintf(`trap "exit 0" TERM; echo up > /sync/%s; sleep 1000000 & wait`, container)}
}

// manifest is the pod as a Kubernetes manifest.
func (p podFiles) manifest() []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: v1\nkind: Pod\nmetadata:\n  name: %s\nspec:\n  containers:\n", p.name)
	for _, c := range p.containers {
		cmd := p.command(c)
		fmt.Fprintf(&b, "  - name: %s\n    image: %s\n    imagePullPolicy: IfNotPresent\n    command: [%q, %q]\n    args: [%q]\n", c, image, cmd[0], cmd[1], cmd[2])
		fmt.Fprintf(&b, "    volumeMounts:\n    - {name: sync, mountPath: /sync}\n")
	}
	fmt.Fprintf(&b, "  volumes:\n  - name: sync\n    hostPath: {path: %q}\n", p.dir)
	return []byte(b.String())
}

// running answers once every container has written into its FIFO.
func (p podFiles) running(ctx context.Context) <-chan error {
	each := make(chan error, len(p.containers))
	for _, c := range p.containers {
		go func() {
			f, err := os.OpenFile(filepath.Join(p.dir, c), os.O_RDWR, 0) // opening for reading alone would wait for a writer
			if err != nil {
				each <- err
				return
			}
			defer f.Close()
			if d, ok := ctx.Deadline(); ok {
				if err := f.SetReadDeadline(d); err != nil {
					each <- err
					return
				}
			}
			_, err = f.Read(make([]byte, 8))
			each <- err
		}()
	}
	all := make(chan error, 1)
	go func() {
		var first error
		for range p.containers {
			if err := <-each; err != nil && first == nil {
				first = err
			}
		}
		all <- first
	}()
	return all
}

// kubePlay runs podman on the same storage: scripts/bench sets its environment.
func kubePlay(ctx context.Context, p podFiles) error {
	file := p.dir + ".yaml"
	if err := os.WriteFile(file, p.manifest(), 0o644); err != nil {
		return err
	}
	return podman(ctx, "kube", "play", file)
}

func kubeDown(ctx context.Context, p podFiles) error {
	return podman(ctx, "pod", "rm", "--force", "--time", "0", p.name)
}

func podman(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, "podman", args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("podman %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// becomes polls for a condition outside the measured time.
func becomes(ctx context.Context, what string, holds func() bool) error {
	for !holds() {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
