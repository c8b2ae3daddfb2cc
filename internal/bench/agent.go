package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// agent is the real agent, fed through its manifest directory.
type agent struct {
	cmd       *exec.Cmd
	manifests string
	http      *http.Client
}

func startAgent(ctx context.Context, binary, dir, podmanURL string) (*agent, error) {
	a := &agent{manifests: filepath.Join(dir, "manifests")}
	if err := os.MkdirAll(a.manifests, 0o755); err != nil {
		return nil, err
	}
	socket := filepath.Join(dir, "podstead.sock")
	log, err := os.Create(filepath.Join(dir, "agent.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	a.cmd = exec.Command(binary, "--root-dir", filepath.Join(dir, "agent"), "--socket", socket,
		"--podman-url", podmanURL, "--pod-manifest-path", a.manifests, "--hostname-override", "bench")
	a.cmd.Stdout, a.cmd.Stderr = log, log
	a.http = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}}}
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	return a, becomes(ctx, "the agent is ready (see "+log.Name()+")", func() bool {
		resp, err := a.http.Get("http://podstead/readyz")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
}

func (a *agent) stop() {
	if a.cmd.Process.Signal(syscall.SIGTERM) == nil {
		_ = a.cmd.Wait()
	}
}

func (a *agent) file(p podFiles) string { return filepath.Join(a.manifests, p.name+".yaml") }

func (a *agent) start(_ context.Context, p podFiles) error {
	return os.WriteFile(a.file(p), p.manifest(), 0o644)
}

func (a *agent) remove(ctx context.Context, p podFiles) error {
	if err := os.Remove(a.file(p)); err != nil {
		return err
	}
	return becomes(ctx, "the pod is gone", func() bool {
		resp, err := a.http.Get("http://podstead/pods")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		var list struct{ Items []json.RawMessage }
		return json.NewDecoder(resp.Body).Decode(&list) == nil && len(list.Items) == 0
	})
}
