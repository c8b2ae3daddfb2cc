package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"

	"golang.org/x/sync/errgroup"
)

// rawPodman makes the fewest API calls that start the same pod, in the best
// order found: the pod; its infra container started while the two others are
// created; those two started at the same time.
type rawPodman struct {
	socket string
	http   *http.Client
}

func newRawPodman(socket string) *rawPodman {
	return &rawPodman{socket: socket, http: &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
		MaxIdleConnsPerHost: 8,
	}}}
}

func (r *rawPodman) start(ctx context.Context, p podFiles) error {
	var made struct{ ID string }
	infra := p.name + "-infra"
	if err := r.call(ctx, http.MethodPost, "/pods/create", map[string]any{"name": p.name, "infra_name": infra, "hostname": p.name}, &made); err != nil {
		return err
	}
	ids := make([]string, len(p.containers))
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return r.call(gctx, http.MethodPost, "/containers/"+infra+"/start", nil, nil)
	})
	for i, c := range p.containers {
		g.Go(func() error { return r.create(gctx, p, made.ID, c, &ids[i]) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	g, gctx = errgroup.WithContext(ctx)
	for _, id := range ids {
		g.Go(func() error { return r.call(gctx, http.MethodPost, "/containers/"+id+"/start", nil, nil) })
	}
	return g.Wait()
}

func (r *rawPodman) create(ctx context.Context, p podFiles, pod, container string, id *string) error {
	var made struct{ ID string }
	err := r.call(ctx, http.MethodPost, "/containers/create", map[string]any{
		"name": p.name + "-" + container, "image": image, "pod": pod,
		"entrypoint":        p.command(container)[:2],
		"command":           p.command(container)[2:],
		"log_configuration": map[string]any{"driver": "k8s-file"},
		"mounts":            []map[string]any{{"destination": "/sync", "source": p.dir, "type": "bind", "options": []string{"rbind"}}},
	}, &made)
	*id = made.ID
	return err
}

// remove ends the containers side by side, then removes the pod with what is
// left of it: in one call Podman would end one after the other.
func (r *rawPodman) remove(ctx context.Context, p podFiles) error {
	g, gctx := errgroup.WithContext(ctx)
	for _, c := range p.containers {
		g.Go(func() error {
			return r.call(gctx, http.MethodPost, "/containers/"+p.name+"-"+c+"/stop?timeout=30", nil, nil)
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	return r.call(ctx, http.MethodDelete, "/pods/"+p.name+"?force=true&timeout=0", nil, nil)
}

// startIn makes and starts one more container in a pod that runs.
func (r *rawPodman) startIn(ctx context.Context, p podFiles, container string) error {
	var id string
	if err := r.create(ctx, p, p.name, container, &id); err != nil {
		return err
	}
	return r.call(ctx, http.MethodPost, "/containers/"+id+"/start", nil, nil)
}

// container is what the bench reads of an inspection.
type container struct {
	ID            string
	IsInfra       bool
	OCIConfigPath string
	State         struct {
		Pid       int
		StartedAt string
	}
	NetworkSettings struct{ SandboxKey string }
}

// inspect lists the containers of the pods that the filter selects, the infra
// containers among them.
func (r *rawPodman) inspect(ctx context.Context, filter string) ([]container, error) {
	var pods []struct{ Containers []struct{ Id string } }
	if err := r.call(ctx, http.MethodGet, "/pods/json?filters="+url.QueryEscape(filter), nil, &pods); err != nil {
		return nil, err
	}
	var found []container
	for _, p := range pods {
		for _, c := range p.Containers {
			var one container
			if err := r.call(ctx, http.MethodGet, "/containers/"+c.Id+"/json", nil, &one); err != nil {
				return nil, err
			}
			found = append(found, one)
		}
	}
	return found, nil
}

func (r *rawPodman) call(ctx context.Context, method, path string, in, out any) error {
	var body io.Reader
	if in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			return err
		}
		body = bytes.NewReader(b)
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://podman/v4.0.0/libpod"+path, body)
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := r.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
