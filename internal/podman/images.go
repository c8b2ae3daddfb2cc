package podman

import (
	"context"
	"errors"
	"os"
	"strings"
	"time"

	"github.com/containers/podman/v4/pkg/bindings/images"

	"podstead.io/podstead/internal/pod"
)

// InspectImage describes the image that is present under the name or ID;
// NotFound when there is none.
func (d *Driver) InspectImage(ctx context.Context, name string) (pod.Image, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return pod.Image{}, err
	}
	data, err := images.GetImage(ctx, name, nil)
	if err != nil {
		return pod.Image{}, classify("inspect image", name, err)
	}
	image := pod.Image{ID: data.ID, Names: data.RepoTags, Digests: data.RepoDigests, SizeBytes: data.Size}
	if data.Created != nil {
		image.CreatedAt = normalize(*data.Created)
	}
	hasPath := data.Config != nil && setsPath(data.Config.Env)
	d.paths.Store(data.ID, hasPath)
	return image, nil
}

func setsPath(env []string) bool {
	for _, e := range env {
		if strings.HasPrefix(e, "PATH=") {
			return true
		}
	}
	return false
}

// imageHasPath tells it of an image by its ID. An ID stands for one content, so
// the answer is kept.
func (d *Driver) imageHasPath(ctx context.Context, id string) (bool, error) {
	if has, ok := d.paths.Load(id); ok {
		return has.(bool), nil
	}
	image, err := d.InspectImage(ctx, id)
	if err != nil {
		return false, err
	}
	has, _ := d.paths.Load(image.ID)
	return has == true, nil
}

// PullImage fetches an image. Podman reports a failure as text only, so that it
// has class Unavailable whatever it is: who needs to know asks the registry.
func (d *Driver) PullImage(ctx context.Context, name string) error {
	ctx, err := d.call(ctx)
	if err != nil {
		return err
	}
	options := new(images.PullOptions).WithQuiet(true)
	if file := os.Getenv("REGISTRY_AUTH_FILE"); file != "" {
		options = options.WithAuthfile(file) // the bindings don't look
	}
	ids, err := images.Pull(ctx, name, options)
	if err == nil && len(ids) == 0 {
		err = errors.New("the transfer was cut short")
	}
	if err != nil {
		return &pod.Error{Class: pod.Unavailable, Op: "pull image", Object: name, Err: err}
	}
	return nil
}

// ListImages lists every image but intermediate ones.
func (d *Driver) ListImages(ctx context.Context) ([]pod.Image, error) {
	ctx, err := d.call(ctx)
	if err != nil {
		return nil, err
	}
	list, err := images.List(ctx, nil)
	if err != nil {
		return nil, classify("list images at", d.o.URL, err)
	}
	out := make([]pod.Image, 0, len(list))
	for _, i := range list {
		out = append(out, pod.Image{ID: i.ID, Names: i.RepoTags, Digests: i.RepoDigests, SizeBytes: i.Size, CreatedAt: normalize(time.Unix(i.Created, 0))})
	}
	return out, nil
}
