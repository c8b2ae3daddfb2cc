package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// agent is the real agent, fed through its manifest directory.
type agent struct {
	cmd       *exec.Cmd     // nil while it does not run
	ended     chan struct{} // closed when it has
	binary    string
	args      []string
	log       string
	manifests string
	http      *http.Client
}

func newAgent(binary, dir, podmanURL string) *agent {
	manifests, socket := filepath.Join(dir, "manifests"), filepath.Join(dir, "podstead.sock")
	return &agent{
		binary: binary, manifests: manifests, log: filepath.Join(dir, "agent.log"),
		args: []string{
			"--root-dir", filepath.Join(dir, "agent"), "--socket", socket,
			"--podman-url", podmanURL, "--pod-manifest-path", manifests, "--hostname-override", "bench",
		},
		http: &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		}}},
	}
}

// run starts it, unless it runs, and returns once it is ready.
func (a *agent) run(ctx context.Context) error {
	if a.cmd != nil {
		return nil
	}
	if err := os.MkdirAll(a.manifests, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(a.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(a.binary, a.args...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	a.cmd, a.ended = cmd, make(chan struct{})
	go func() {
		defer close(a.ended)
		_ = cmd.Wait()
	}()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for !a.ready(ctx) {
		select {
		case <-a.ended:
			return fmt.Errorf("the agent has ended (%s), see %s", cmd.ProcessState, a.log)
		default:
		}
		if err := moment(ctx); err != nil {
			return fmt.Errorf("the agent is not ready (see %s): %w", a.log, err)
		}
	}
	return nil
}

func (a *agent) ready(ctx context.Context) bool {
	resp, err := a.get(ctx, "/readyz")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}

func (a *agent) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podstead"+path, nil)
	if err != nil {
		return nil, err
	}
	return a.http.Do(req)
}

func (a *agent) pid() int { return a.cmd.Process.Pid }

// end stops it if it runs. Containers are left.
func (a *agent) end() {
	if a.cmd != nil {
		_ = a.cmd.Process.Signal(syscall.SIGTERM)
		<-a.ended
	}
	a.cmd = nil
	a.http.CloseIdleConnections()
}

func (a *agent) file(p podFiles) string { return filepath.Join(a.manifests, p.name+".yaml") }

func (a *agent) start(_ context.Context, p podFiles) error {
	return os.WriteFile(a.file(p), p.manifest(), 0o644)
}

// withdraw deletes the manifest and waits for nothing.
func (a *agent) withdraw(_ context.Context, p podFiles) error { return os.Remove(a.file(p)) }

// remove returns once the agent knows nothing of the pod any more.
func (a *agent) remove(ctx context.Context, p podFiles) error {
	return a.removeAll(ctx, []podFiles{p})
}

func (a *agent) startAll(ctx context.Context, pods []podFiles) error {
	for _, p := range pods {
		if err := a.start(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func (a *agent) removeAll(ctx context.Context, pods []podFiles) error {
	gone := map[string]bool{}
	for _, p := range pods {
		if err := a.withdraw(ctx, p); err != nil {
			return err
		}
		gone[p.name+"-bench"] = true
	}
	return becomes(ctx, "the pods are gone", func() bool {
		list, err := a.pods(ctx)
		for _, p := range list {
			if gone[p.Metadata.Name] {
				return false
			}
		}
		return err == nil
	})
}

// settled returns once every pod is Running and ready.
func (a *agent) settled(ctx context.Context) error {
	return becomes(ctx, "every pod is ready", func() bool {
		list, err := a.pods(ctx)
		for _, p := range list {
			for _, c := range p.Status.Conditions {
				if c.Type == "Ready" && c.Status != "True" {
					return false
				}
			}
		}
		return err == nil
	})
}

// listedPod is what the bench reads of a pod.
type listedPod struct {
	Metadata struct{ Name string }
	Status   struct {
		Conditions []struct{ Type, Status string }
	}
}

func (a *agent) pods(ctx context.Context) ([]listedPod, error) {
	resp, err := a.get(ctx, "/pods")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, errors.New(resp.Status)
	}
	var list struct{ Items []listedPod }
	return list.Items, json.NewDecoder(resp.Body).Decode(&list)
}
