package doctor

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"podstead.io/podstead/internal/wire"
)

// podmanAt serves h on a socket and returns its URL.
func podmanAt(t *testing.T, h http.Handler) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "podman.sock")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: l, Config: &http.Server{Handler: h, ReadHeaderTimeout: time.Second}}
	server.Start()
	t.Cleanup(server.Close)
	return "unix://" + path
}

func answering(code int, body string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v4.0.0/libpod/info" {
			code = http.StatusNotFound
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	})
}

// podmanInfo is what Podman 4.3.1 answers, as far as it matters.
const podmanInfo = `{"host":{"cgroupManager":"cgroupfs","cgroupVersion":"v1","cgroupControllers":["cpu"],"networkBackend":"netavark",
"ociRuntime":{"name":"runc","path":"/usr/bin/runc"}},"store":{"graphDriverName":"overlay","graphRoot":"/nonexistent/storage"},"version":{"Version":"4.3.1"}}`

type agentStub struct {
	info wire.Agent
	err  error
}

func (a agentStub) Version(context.Context) (wire.Version, error) {
	return wire.Version{Podstead: "v1"}, a.err
}
func (a agentStub) Agent(context.Context) (wire.Agent, error)  { return a.info, a.err }
func (a agentStub) NotReady(context.Context) ([]string, error) { return []string{"x failed: y"}, a.err }

func noEnv(string) string { return "" }

func TestGatherFollowsTheAgent(t *testing.T) {
	url := podmanAt(t, answering(http.StatusOK, podmanInfo))
	root := t.TempDir()
	f := Gather(t.Context(), Options{
		Agent: agentStub{info: wire.Agent{RootDir: root, PodmanURL: url, ManifestPaths: []string{root, "/nonexistent"}}}, Getenv: noEnv,
		RootDir: "/not/this", PodmanURL: "unix:///nor/this",
	})
	if f.Agent.Version != "v1" || f.Agent.Err != "" || len(f.Agent.NotReady) != 1 {
		t.Errorf("agent %+v", f.Agent)
	}
	if f.Podman.URL != url || f.Podman.ServiceErr != "" || f.Podman.Info == nil || f.Podman.Info.Host.OCIRuntime.Name != "runc" {
		t.Errorf("podman %+v", f.Podman)
	}
	if f.Root.Path != root || f.Root.Err != "" || f.Root.TotalBytes == 0 {
		t.Errorf("root %+v", f.Root)
	}
	if f.Storage.Path != "/nonexistent/storage" || f.Storage.Err != "" || f.Storage.TotalBytes == 0 {
		t.Errorf("a directory that is yet to be made is measured by what is above it: %+v", f.Storage)
	}
	if len(f.Manifests) != 2 || f.Manifests[0].Err != "" || f.Manifests[1].Err == "" {
		t.Errorf("manifests %+v", f.Manifests)
	}
	if f.Process.MaxFiles == 0 || f.Files.Max == 0 || f.Inotify.MaxWatches == 0 {
		t.Errorf("limits %+v %+v %+v", f.Process, f.Files, f.Inotify)
	}
}

func TestGatherWithoutAgent(t *testing.T) {
	url := podmanAt(t, answering(http.StatusOK, podmanInfo))
	root := t.TempDir()
	f := Gather(t.Context(), Options{Agent: agentStub{err: errors.New("down")}, Getenv: noEnv, RootDir: root, PodmanURL: url})
	if f.Agent.Err != "down" || f.Podman.Info == nil || f.Root.Path != root {
		t.Errorf("%+v %+v %+v", f.Agent, f.Podman, f.Root)
	}
}

func TestServiceThatDoesNotAnswer(t *testing.T) {
	for name, c := range map[string]struct{ url, want string }{
		"absent":   {"unix:///nonexistent/podman.sock", "no such file"},
		"failing":  {podmanAt(t, answering(http.StatusInternalServerError, "")), "500"},
		"strange":  {podmanAt(t, answering(http.StatusOK, "hello")), "not understood"},
		"over ssh": {"ssh://host/podman.sock", "only unix://"},
	} {
		if _, err := serviceInfo(t.Context(), c.url); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestServiceThatHangs(t *testing.T) {
	release := make(chan struct{})
	url := podmanAt(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-release }))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := serviceInfo(ctx, url); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	close(release)
}

func TestCommandInfo(t *testing.T) {
	dir := t.TempDir()
	script := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+text), 0o700); err != nil {
			t.Fatal(err)
		}
		return path
	}
	info, err := commandInfo(t.Context(), script("good", "cat <<'E'\n"+podmanInfo+"\nE\n"))
	if err != nil || info.Version.Version != "4.3.1" {
		t.Errorf("%v: %+v", err, info)
	}
	if _, err := commandInfo(t.Context(), script("bad", "echo no subuid >&2; exit 125\n")); err == nil || !strings.Contains(err.Error(), "no subuid") {
		t.Errorf("the command's words are lost: %v", err)
	}
}

func TestDefaultUlimits(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	one := file("one", "[containers]\ndefault_ulimits = [\"nofile=1024:2048\", \"nproc=7\"]\n")
	other := file("other", "[containers]\ndefault_ulimits = [\"nofile=5:-1\"]\n[engine]\nruntime = \"runc\"\n")
	none := file("none", "[engine]\nruntime = \"runc\"\n")
	missing := filepath.Join(dir, "missing")
	for _, c := range []struct {
		files []string
		want  map[string]Ulimit
	}{
		{nil, map[string]Ulimit{}},
		{[]string{missing, one, none}, map[string]Ulimit{"nofile": {1024, 2048}, "nproc": {7, 7}}},
		{[]string{one, other}, map[string]Ulimit{"nofile": {5, 1<<64 - 1}}},
	} {
		got, err := defaultUlimits(c.files)
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%v: %v, %v", c.files, got, err)
		}
	}
	for name, text := range map[string]string{"syntax": "[containers\n", "pair": "[containers]\ndefault_ulimits = [\"nofile\"]\n", "number": "[containers]\ndefault_ulimits = [\"nofile=x\"]\n"} {
		path := file(name, text)
		if _, err := defaultUlimits([]string{path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfigFilesObeyTheEnvironment(t *testing.T) {
	only := configFiles(func(name string) string {
		if name == "CONTAINERS_CONF" {
			return "/my.conf"
		}
		return ""
	})
	if !reflect.DeepEqual(only, []string{"/my.conf"}) {
		t.Errorf("got %v", only)
	}
	if all := configFiles(noEnv); len(all) < 2 || all[1] != "/etc/containers/containers.conf" {
		t.Errorf("got %v", all)
	}
}
