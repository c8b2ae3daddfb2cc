package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"

	"golang.org/x/sync/errgroup"
)

// rawPodman makes the fewest API calls that start the same pod, in the best
// order found: the pod; its infra container started while the two others are
// created; those two started at the same time.
type rawPodman struct{ http *http.Client }

func newRawPodman(socket string) *rawPodman {
	return &rawPodman{http: &http.Client{Transport: &http.Transport{
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
	ids := make([]string, len(containers))
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		return r.call(gctx, http.MethodPost, "/containers/"+infra+"/start", nil, nil)
	})
	for i, c := range containers {
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

func (r *rawPodman) remove(ctx context.Context, p podFiles) error {
	return r.call(ctx, http.MethodDelete, "/pods/"+p.name+"?force=true&timeout=0", nil, nil)
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
