package e2e

import (
	"context"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// step is something that the agent does and that can be seen from outside: a call
// to Podman, or a write to one of the files in its root directory.
type step struct {
	kind string // as "POST containers/*/start" or "write podstead.db-wal"
	nth  int    // among those of its kind, from 1
	// object is the ID or name that a call is about; empty: none.
	object string
	// took is how long a call took; negative: its end was not seen.
	took time.Duration
}

// writeKind begins the kind of a write.
const writeKind = "write "

// track watches the agent's steps, and springs a trap at one of them. Calls pass
// through it on their way to Podman; it is a Podman socket for the agent.
type track struct {
	socket string
	proxy  *httputil.ReverseProxy

	mu     sync.Mutex
	server *http.Server // nil while closed
	seen   map[string]int
	steps  []step
	trap   *trap
}

// trap is sprung once, at its moment.
type trap struct {
	moment
	spring func()
	// passes says that the call goes on to Podman even if the trap is sprung before
	// that: neither of the two ends of it is dead.
	passes bool
	once   sync.Once
	sprung chan struct{}
}

func (p *trap) strike() {
	p.once.Do(func() {
		p.spring()
		close(p.sprung)
	})
}

// watchSteps puts a track between the agent, which must not run yet, and its
// Podman.
func watchSteps(t *testing.T, a *agent) *track {
	t.Helper()
	target := strings.TrimPrefix(a.host.URL, "unix://")
	k := &track{socket: filepath.Join(a.host.Dir, "gate.sock"), seen: map[string]int{}}
	k.proxy = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "podman"}) },
		FlushInterval: -1,
		ErrorLog:      log.New(io.Discard, "", 0),
		ErrorHandler:  func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }, // as a dead Podman answers
		Transport: &http.Transport{
			DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "unix", target)
			},
		},
	}
	k.open(t)
	t.Cleanup(k.shut)
	a.podman = []string{"--podman-url", "unix://" + k.socket}
	k.watchFiles(t, a.root)
	return k
}

// open lets calls through; shut breaks those under way and refuses the rest, as
// when there is no Podman.
func (k *track) open(t *testing.T) {
	t.Helper()
	listener, err := net.Listen("unix", k.socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: k, ErrorLog: log.New(io.Discard, "", 0)}
	k.mu.Lock()
	k.server = server
	k.mu.Unlock()
	go func() { _ = server.Serve(listener) }()
}

func (k *track) shut() {
	k.mu.Lock()
	server := k.server
	k.server = nil
	k.mu.Unlock()
	if server != nil {
		_ = server.Close()
	}
}

// watchFiles takes each write to a file of the directory for a step. The kernel
// reports writes that follow each other at once as one.
func (k *track) watchFiles(t *testing.T, dir string) {
	t.Helper()
	watcher, err := fsnotify.NewWatcher()
	if err == nil {
		err = watcher.Add(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for event := range watcher.Events {
			if event.Has(fsnotify.Write) || event.Has(fsnotify.Create) {
				if _, trap := k.begin(writeKind+filepath.Base(event.Name), ""); trap != nil {
					trap.strike()
				}
			}
		}
	}()
	t.Cleanup(func() { _ = watcher.Close(); <-ended })
}

// record forgets the steps so far and sets a trap; nil: none.
func (k *track) record(p *trap) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen, k.steps, k.trap = map[string]int{}, nil, p
}

// recorded are the steps since record.
func (k *track) recorded() []step {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]step(nil), k.steps...)
}

// begin notes a step, and returns the trap if this is its moment.
func (k *track) begin(kind, object string) (index int, p *trap) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen[kind]++
	k.steps = append(k.steps, step{kind: kind, nth: k.seen[kind], object: object, took: -1})
	index = len(k.steps) - 1
	if k.trap != nil && k.trap.at(k.steps[index], len(k.steps)) {
		p, k.trap = k.trap, nil
	}
	return index, p
}

func (k *track) end(kind string, index int, took time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if index < len(k.steps) && k.steps[index].kind == kind {
		k.steps[index].took = took
	}
}

// ServeHTTP passes a call on. A trap is sprung before Podman has it, while Podman
// works on it, or after Podman has answered and before the agent knows.
func (k *track) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	kind, object := kindOf(r)
	index, p := k.begin(kind, object)
	began := time.Now()
	defer func() { k.end(kind, index, time.Since(began)) }()
	switch {
	case p == nil:
		k.proxy.ServeHTTP(w, r)
	case p.share <= 0:
		p.strike()
		if !p.passes {
			panic(http.ErrAbortHandler)
		}
		k.proxy.ServeHTTP(w, r)
	case p.share < 1:
		defer p.strike() // a call that was quicker than the last time
		defer time.AfterFunc(time.Duration(p.share*float64(p.took)), p.strike).Stop()
		k.proxy.ServeHTTP(w, r)
	default:
		answer := httptest.NewRecorder()
		k.proxy.ServeHTTP(answer, r)
		p.strike()
		maps.Copy(w.Header(), answer.Header())
		w.WriteHeader(answer.Code)
		_, _ = answer.Body.WriteTo(w)
	}
}

var apiPrefix = regexp.MustCompile(`^/(v[0-9.]+/)?(libpod/)?`)

// kindOf names a call, and what it is about.
func kindOf(r *http.Request) (kind, object string) {
	parts := strings.Split(apiPrefix.ReplaceAllString(r.URL.Path, ""), "/")
	switch last := len(parts) - 1; {
	case last > 1:
		object = strings.Join(parts[1:last], "/")
		parts = []string{parts[0], "*", parts[last]}
	case last == 1 && r.Method == http.MethodDelete:
		object = parts[1]
		parts[1] = "*"
	}
	return r.Method + " " + strings.Join(parts, "/"), object
}

// starting are the containers, by ID or name, that Podman is starting now.
func (k *track) starting() (objects []string) {
	for _, s := range k.recorded() {
		if s.kind == "POST containers/*/start" && s.took < 0 {
			objects = append(objects, s.object)
		}
	}
	return objects
}

// copyFiles copies what there is of the files to another directory.
func copyFiles(from, to string, files []string) error {
	if err := os.MkdirAll(to, 0o700); err != nil {
		return err
	}
	for _, name := range files {
		content, err := os.ReadFile(filepath.Join(from, name))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(to, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
