package app

import (
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// listenUnix serves HTTP with the handler on a socket, or accepts and says
// nothing when there is no handler.
func listenUnix(t *testing.T, socket string, handler http.Handler) *net.UnixListener {
	t.Helper()
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	if handler != nil {
		server := &http.Server{Handler: handler}
		done := make(chan struct{})
		go func() { _ = server.Serve(listener); close(done) }()
		t.Cleanup(func() { _ = server.Close(); <-done })
	} else {
		t.Cleanup(func() { _ = listener.Close() })
	}
	return listener
}

func status(code int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/_ping" {
			code = http.StatusTeapot
		}
		w.WriteHeader(code)
	})
}

func TestFindPodman(t *testing.T) {
	dir := t.TempDir()
	socket := func(name string) string { return filepath.Join(dir, name) }
	listenUnix(t, socket("good"), status(http.StatusOK))
	listenUnix(t, socket("other"), status(http.StatusOK))
	listenUnix(t, socket("sick"), status(http.StatusInternalServerError))
	stale := listenUnix(t, socket("stale"), nil)
	stale.SetUnlinkOnClose(false)
	if err := stale.Close(); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name    string
		asked   string
		sockets []string
		want    string
		says    string
		silent  bool
	}{
		{name: "asked for", asked: "unix:///elsewhere", sockets: []string{socket("good")}, want: "unix:///elsewhere", says: "--podman-url"},
		{name: "the first that answers", sockets: []string{socket("absent"), socket("good"), socket("other")}, want: "unix://" + socket("good"), says: socket("good")},
		{name: "a dead and a sick one", sockets: []string{socket("stale"), socket("sick"), socket("other")}, want: "unix://" + socket("other"), says: socket("stale")},
		{name: "none", sockets: []string{socket("absent")}, silent: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			said := &logBuffer{}
			got := findPodman(t.Context(), test.asked, test.sockets, slog.New(slog.NewTextHandler(said, nil)))
			if got != test.want {
				t.Errorf("chose %q, want %q", got, test.want)
			}
			if !strings.Contains(said.String(), test.says) || test.silent && said.String() != "" {
				t.Errorf("logged %q", said)
			}
		})
	}
}

func TestPodmanSockets(t *testing.T) {
	environment := map[string]string{}
	get := func(name string) string { return environment[name] }
	if got := podmanSockets(get); !slices.Equal(got, []string{"/run/podman/podman.sock"}) {
		t.Errorf("got %v", got)
	}
	environment["XDG_RUNTIME_DIR"] = "/run/user/1000"
	if got := podmanSockets(get); !slices.Equal(got, []string{"/run/podman/podman.sock", "/run/user/1000/podman/podman.sock"}) {
		t.Errorf("got %v", got)
	}
}
