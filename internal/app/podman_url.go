package app

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// findLimit is how long a Podman socket may take to answer when the agent looks
// for one. The first connection to a socket of systemd's starts the service.
const findLimit = 5 * time.Second

// podmanSockets are where others' Podman services listen, in order of preference.
func podmanSockets(getenv func(string) string) []string {
	sockets := []string{"/run/podman/podman.sock"}
	if dir := getenv("XDG_RUNTIME_DIR"); dir != "" {
		sockets = append(sockets, filepath.Join(dir, "podman/podman.sock"))
	}
	return sockets
}

// findPodman decides which Podman to use: the one asked for, or the first socket
// that answers. An empty URL means none does, and the agent runs its own.
func findPodman(ctx context.Context, asked string, sockets []string, log *slog.Logger) string {
	if asked != "" {
		log.Info("using the Podman service that --podman-url names", "url", asked)
		return asked
	}
	for _, socket := range sockets {
		url := "unix://" + socket
		err := answersWithin(ctx, url, findLimit)
		if err == nil {
			log.Info("using the Podman service that is there", "url", url)
			return url
		}
		if !errors.Is(err, fs.ErrNotExist) {
			log.Warn("a Podman socket gives no answer and is passed over", "url", url, "error", err)
		}
	}
	return ""
}

func answersWithin(ctx context.Context, url string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	return pingPodman(ctx, url)
}

// pingPodman asks the service for a sign of life. It costs the service next to
// nothing, and takes no lock there.
func pingPodman(ctx context.Context, url string) error {
	socket := strings.TrimPrefix(url, "unix://")
	if _, err := os.Stat(socket); err != nil {
		return err
	}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podman/_ping", nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		err = fmt.Errorf("it answers %s", response.Status)
	}
	return errors.Join(err, response.Body.Close())
}
