package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/wire"
)

// request is a question to the agent's socket; the method is GET unless given.
type request struct {
	method string
	path   string
	media  string
	body   []byte
}

type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a *agent) ask(r request) (answer, error) {
	req, err := http.NewRequest(r.method, "http://podsteadd"+r.path, bytes.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	if r.media != "" {
		req.Header.Set("Content-Type", r.media)
	}
	resp, err := a.http.Do(req)
	if err != nil {
		return answer{}, err
	}
	body, err := io.ReadAll(resp.Body)
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, errors.Join(err, resp.Body.Close())
}

// asked asks what must be answered, with whatever status.
func (a *agent) asked(t *testing.T, r request) answer {
	t.Helper()
	got, err := a.ask(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.method, r.path, err)
	}
	return got
}

// submit posts manifests.
func (a *agent) submit(t *testing.T, manifests []byte) answer {
	t.Helper()
	return a.asked(t, request{method: http.MethodPost, path: wire.PathManifests, media: "application/yaml", body: manifests})
}

// withdraw deletes a pod that was submitted.
func (a *agent) withdraw(t *testing.T, name string) answer {
	t.Helper()
	return a.asked(t, request{method: http.MethodDelete, path: wire.PathManifests + "/default/" + name})
}

// errNoPod says that the agent knows no pod of the name.
var errNoPod = errors.New("the agent has no such pod")

// pod is what the agent says of a pod of namespace default.
func (a *agent) pod(name string) (*corev1.Pod, error) {
	got, err := a.ask(request{path: wire.PathPods + "/default/" + name})
	switch {
	case err != nil:
		return nil, err
	case got.status == http.StatusNotFound:
		return nil, fmt.Errorf("%w: %s", errNoPod, name)
	case got.status != http.StatusOK:
		return nil, fmt.Errorf("pod %s: %d %s", name, got.status, got.body)
	}
	p := &corev1.Pod{}
	return p, json.Unmarshal(got.body, p)
}

// mustPod is what the agent says of a pod that it must know.
func (a *agent) mustPod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	p, err := a.pod(name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// sql asks for rows as objects. Parameters are those of ?1, ?2 and so on.
func (a *agent) sql(query string, parameters ...any) ([]map[string]any, error) {
	params, err := json.Marshal(append([]any{}, parameters...))
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(wire.Query{Query: query, Parameters: params})
	if err != nil {
		return nil, err
	}
	got, err := a.ask(request{method: http.MethodPost, path: wire.PathSQL, media: "application/json", body: body})
	if err != nil {
		return nil, err
	}
	if got.status != http.StatusOK {
		return nil, fmt.Errorf("%s: %d %s", query, got.status, got.body)
	}
	var rows []map[string]any
	return rows, json.Unmarshal(got.body, &rows)
}

// one is the only value of the only row.
func (a *agent) one(query string, parameters ...any) (any, error) {
	rows, err := a.sql(query, parameters...)
	if err != nil {
		return nil, err
	}
	if len(rows) != 1 || len(rows[0]) != 1 {
		return nil, fmt.Errorf("%s: %v is not one value", query, rows)
	}
	for _, value := range rows[0] {
		return value, nil
	}
	return nil, nil
}

// output is what a run of the client came to.
type output struct {
	stdout, stderr string
	status         int
}

// podstead runs the client. It may be refused; it must not crash.
func (a *agent) podstead(t *testing.T, arguments ...string) output {
	t.Helper()
	return a.podsteadWith(t, "", arguments...)
}

func (a *agent) podsteadWith(t *testing.T, stdin string, arguments ...string) output {
	t.Helper()
	cmd := exec.Command(binaries.client, arguments...)
	cmd.Env = append(append(os.Environ(), a.host.Env...), wire.SocketVariable+"="+a.socket)
	cmd.Stdin = strings.NewReader(stdin)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatalf("podstead %s: %v", strings.Join(arguments, " "), err)
	}
	out := output{stdout: stdout.String(), stderr: stderr.String(), status: cmd.ProcessState.ExitCode()}
	if out.status < 0 || out.status > 1 {
		t.Fatalf("podstead %s ended with status %d: %s", strings.Join(arguments, " "), out.status, out.stderr)
	}
	return out
}

// prints is what the client prints to standard output, with exit status 0.
func (a *agent) prints(t *testing.T, arguments ...string) string {
	t.Helper()
	out := a.podstead(t, arguments...)
	if out.status != 0 {
		t.Fatalf("podstead %s: status %d: %s", strings.Join(arguments, " "), out.status, out.stderr)
	}
	return out.stdout
}

// query makes a path with a query string.
func query(path string, values url.Values) string { return path + "?" + values.Encode() }
