package podman

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/containers/podman/v4/pkg/bindings"
	"github.com/containers/podman/v4/pkg/errorhandling"
)

const (
	// idleConnections is about as many calls as are made at a time.
	idleConnections = 16
	idleTimeout     = time.Minute
)

// newTransport has every connection shown to dialed.
func newTransport(socket string, dialed func(net.Conn)) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, "unix", socket)
			if err == nil {
				dialed(c)
			}
			return c, err
		},
		DisableCompression:  true,
		MaxIdleConns:        idleConnections,
		MaxIdleConnsPerHost: idleConnections,
		IdleConnTimeout:     idleTimeout,
	}
}

// answering makes a failure to reach the service look like an answer of the
// service. The bindings send what failed twice more, used-up bodies included,
// and sleep 0.6 s in all over it whatever the deadline; an answer they pass on.
type answering struct{ base http.RoundTripper }

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := a.base.RoundTrip(req)
	if err == nil {
		return resp, nil
	}
	text := err.Error()
	if errors.Is(err, context.DeadlineExceeded) {
		text = "Podman did not answer in time"
	}
	body, err := json.Marshal(errorhandling.ErrorModel{Because: text, Message: text, ResponseCode: http.StatusServiceUnavailable})
	if err != nil {
		return nil, err
	}
	return &http.Response{
		Status: http.StatusText(http.StatusServiceUnavailable), StatusCode: http.StatusServiceUnavailable,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: http.Header{},
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)), Request: req,
	}, nil
}

// callContext ends with the caller's context and holds the bindings' connection.
type callContext struct {
	context.Context
	values context.Context
}

func (c callContext) Value(key any) any {
	if v := c.values.Value(key); v != nil {
		return v
	}
	return c.Context.Value(key)
}

// call prepares a context for the bindings. Only they can make what they want to
// find in it, and they ping the service for that, minding no deadline: hence
// the ping before. Nothing is locked meanwhile, so that a service that hangs
// holds nobody up for longer than his own deadline.
func (d *Driver) call(ctx context.Context) (context.Context, error) {
	if values := d.connection.Load(); values != nil {
		return callContext{Context: ctx, values: *values}, nil
	}
	if err := d.Ping(ctx); err != nil {
		return nil, err
	}
	values, err := bindings.NewConnection(ctx, d.o.URL)
	if err != nil {
		return nil, classify("connect to Podman at", d.o.URL, err)
	}
	connection, err := bindings.GetClient(values)
	if err != nil {
		return nil, classify("connect to Podman at", d.o.URL, err)
	}
	connection.Client.CloseIdleConnections()
	connection.Client = &http.Client{Transport: answering{d.transport}}
	values = context.WithoutCancel(values)
	d.connection.Store(&values)
	return callContext{Context: ctx, values: values}, nil
}

// Ping asks for a sign of life.
func (d *Driver) Ping(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://d/_ping", nil)
	if err != nil {
		return classify("ping Podman at", d.o.URL, err)
	}
	resp, err := d.transport.RoundTrip(req)
	if err != nil {
		return classify("ping Podman at", d.o.URL, err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return classify("ping Podman at", d.o.URL, errors.Join(err, resp.Body.Close()))
	}
	if resp.StatusCode != http.StatusOK {
		return classify("ping Podman at", d.o.URL, errors.Join(fmt.Errorf("it answered %s", resp.Status), resp.Body.Close()))
	}
	return classify("ping Podman at", d.o.URL, resp.Body.Close())
}
