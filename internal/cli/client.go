package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/wire"
)

const (
	dialTimeout = 5 * time.Second
	// answerTimeout is a little more than the agent takes at most.
	answerTimeout = 70 * time.Second
	// busyTries is how often a request is sent that the agent is too busy for.
	busyTries = 5
	// tableType asks for columns, as kubectl does.
	tableType = "application/json;as=Table;v=v1;g=meta.k8s.io"
)

// client speaks to the agent.
type client struct {
	socket string
	http   *http.Client
}

func newClient(socket string) *client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "unix", socket)
	}
	return &client{socket: socket, http: &http.Client{
		Transport: &http.Transport{DialContext: dial, DisableCompression: true},
		Timeout:   answerTimeout,
	}}
}

// request is one question to the agent.
type request struct {
	method string
	path   string
	query  url.Values
	accept string
	media  string // of body
	body   string
}

// answer is what the agent said to it.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// do asks, again after a while when the agent is too busy. What is not a success
// is a *statusError.
func (c *client) do(ctx context.Context, r request) (answer, error) {
	for try := 1; ; try++ {
		a, err := c.once(ctx, r)
		var refused *statusError
		if !errors.As(err, &refused) || refused.Code != http.StatusTooManyRequests || try == busyTries {
			return a, err
		}
		wait := time.NewTimer(refused.retryAfter())
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return answer{}, ctx.Err()
		}
	}
}

func (c *client) once(ctx context.Context, r request) (answer, error) {
	a, err := c.send(ctx, r)
	if err == nil && a.status >= http.StatusBadRequest {
		err = newStatusError(a)
	}
	return a, err
}

// send asks once and takes whatever the agent answers.
func (c *client) send(ctx context.Context, r request) (answer, error) {
	target := url.URL{Scheme: "http", Host: "podsteadd", Path: r.path, RawQuery: r.query.Encode()}
	req, err := http.NewRequestWithContext(ctx, r.method, target.String(), strings.NewReader(r.body))
	if err != nil {
		return answer{}, err
	}
	if r.accept != "" {
		req.Header.Set("Accept", r.accept)
	}
	if r.media != "" {
		req.Header.Set("Content-Type", r.media)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return answer{}, c.explain(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, c.explain(err)
	}
	return answer{status: resp.StatusCode, header: resp.Header, body: body}, nil
}

// explain says why the agent could not be asked and what to do.
func (c *client) explain(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	hint := "Is podsteadd running? Try: systemctl status podsteadd"
	switch {
	case errors.Is(err, fs.ErrPermission):
		hint = "Run podstead as root, or as a member of the socket's group, as after: adduser NAME podstead, and a new login"
	case errors.Is(err, syscall.ENOENT), errors.Is(err, syscall.ECONNREFUSED):
		hint += ". If it listens elsewhere, give --socket or set " + wire.SocketVariable
	}
	return &unreachable{fmt.Errorf("cannot reach the agent at %s: %w\n%s", c.socket, err, hint)}
}

// unreachable is the error when the agent gave no answer.
type unreachable struct{ err error }

func (u *unreachable) Error() string { return u.err.Error() }
func (u *unreachable) Unwrap() error { return u.err }

// statusError is the agent's refusal.
type statusError struct{ wire.Refusal }

func newStatusError(a answer) *statusError {
	e := &statusError{}
	if json.Unmarshal(a.body, &e.Refusal) != nil || e.Kind != "Status" {
		e.Refusal = wire.Refusal{Status: metav1.Status{Message: fmt.Sprintf("the agent answered %d: %s", a.status, strings.TrimSpace(string(a.body)))}}
	}
	e.Code = int32(a.status)
	return e
}

func (e *statusError) Error() string { return e.Message }

func (e *statusError) retryAfter() time.Duration {
	if e.Details != nil && e.Details.RetryAfterSeconds > 0 {
		return time.Duration(e.Details.RetryAfterSeconds) * time.Second
	}
	return time.Second
}

// isRefusal reports whether the agent answered, and refused.
func isRefusal(err error) bool {
	var e *statusError
	return errors.As(err, &e)
}

func isNotFound(err error) bool {
	var e *statusError
	return errors.As(err, &e) && e.Code == http.StatusNotFound
}

// get fetches JSON into v.
func (c *client) get(ctx context.Context, r request, v any) error {
	r.method = http.MethodGet
	a, err := c.do(ctx, r)
	if err != nil {
		return err
	}
	return decode(a.body, v)
}

func decode(body []byte, v any) error {
	if err := json.Unmarshal(body, v); err != nil {
		return fmt.Errorf("the agent's answer is not understood, are client and agent of one version? %w", err)
	}
	return nil
}

// inNamespace narrows a list; empty: all.
func inNamespace(namespace string) url.Values {
	if namespace == "" {
		return nil
	}
	return url.Values{"namespace": {namespace}}
}

func (c *client) pods(ctx context.Context, namespace string) (*corev1.PodList, error) {
	var list corev1.PodList
	return &list, c.get(ctx, request{path: wire.PathPods, query: inNamespace(namespace)}, &list)
}

func (c *client) podTable(ctx context.Context, namespace string) (*metav1.Table, error) {
	var table metav1.Table
	return &table, c.get(ctx, request{path: wire.PathPods, query: inNamespace(namespace), accept: tableType}, &table)
}

func (c *client) pod(ctx context.Context, namespace, name string) (*corev1.Pod, error) {
	var p corev1.Pod
	return &p, c.get(ctx, request{path: podPath(wire.PathPods, namespace, name)}, &p)
}

func podPath(base, namespace, name string) string { return base + "/" + namespace + "/" + name }

func (c *client) agent(ctx context.Context) (wire.Agent, error) {
	var a wire.Agent
	return a, c.get(ctx, request{path: wire.PathAgent}, &a)
}

func (c *client) version(ctx context.Context) (wire.Version, error) {
	var v wire.Version
	return v, c.get(ctx, request{path: wire.PathVersion}, &v)
}

// submit sends one file.
func (c *client) submit(ctx context.Context, f manifestFile, namespace string, dryRun bool) (answer, wire.Submitted, error) {
	q := url.Values{"unit": {f.name}, "namespace": {namespace}}
	if dryRun {
		q.Set("dryRun", metav1.DryRunAll)
	}
	a, err := c.do(ctx, request{method: http.MethodPost, path: wire.PathManifests, query: q, media: "application/yaml", body: f.text})
	if err != nil {
		return a, wire.Submitted{}, err
	}
	var s wire.Submitted
	return a, s, decode(a.body, &s)
}

// withdraw deletes a pod that was submitted; grace below zero: the pod's own.
func (c *client) withdraw(ctx context.Context, namespace, name string, grace int64) error {
	q := url.Values{}
	if grace >= 0 {
		q.Set("gracePeriodSeconds", strconv.FormatInt(grace, 10))
	}
	_, err := c.do(ctx, request{method: http.MethodDelete, path: podPath(wire.PathManifests, namespace, name), query: q})
	return err
}

// query asks SQL for columns and rows. Parameters are by name.
func (c *client) query(ctx context.Context, text string, parameters map[string]any) (wire.Rows, error) {
	params, err := json.Marshal(parameters)
	if err != nil {
		return wire.Rows{}, err
	}
	a, err := c.sql(ctx, wire.Query{Query: text, Parameters: params}, "rows")
	if err != nil {
		return wire.Rows{}, err
	}
	return decodeRows(a.body)
}

func (c *client) sql(ctx context.Context, q wire.Query, format string) (answer, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return answer{}, err
	}
	return c.do(ctx, request{
		method: http.MethodPost, path: wire.PathSQL, query: url.Values{"format": {format}},
		media: "application/json", body: string(body),
	})
}

// decodeRows keeps numbers as they were written.
func decodeRows(body []byte) (wire.Rows, error) {
	var rows wire.Rows
	dec := json.NewDecoder(strings.NewReader(string(body)))
	dec.UseNumber()
	if err := dec.Decode(&rows); err != nil {
		return rows, fmt.Errorf("the agent's answer is not understood: %w", err)
	}
	return rows, nil
}
