package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"
)

const (
	// askTimeout is how long Podman has to answer; a listing that is slow under
	// load takes a tenth of it.
	askTimeout = 5 * time.Second
	// infoPath is the oldest of the API's paths that every version still answers.
	infoPath = "/v4.0.0/libpod/info"
)

// defaultPodmanURL is where Podman's own unit listens.
func defaultPodmanURL(getenv func(string) string) string {
	if dir := getenv("XDG_RUNTIME_DIR"); os.Geteuid() != 0 && dir != "" {
		return "unix://" + dir + "/podman/podman.sock"
	}
	return "unix:///run/podman/podman.sock"
}

// askPodman asks the service, and the command where there is no service.
func askPodman(ctx context.Context, at string) Podman {
	p := Podman{URL: at}
	if path, err := exec.LookPath("podman"); err == nil {
		p.Binary = path
	}
	info, err := serviceInfo(ctx, at)
	if err == nil {
		p.Info = info
		return p
	}
	p.ServiceErr = brief(err)
	if p.Binary == "" {
		return p
	}
	if info, err = commandInfo(ctx, p.Binary); err != nil {
		p.InfoErr = brief(err)
		return p
	}
	p.Info = info
	return p
}

// brief is the innermost reason of a network error: the address is known.
func brief(err error) string {
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return err.Error()
}

func serviceInfo(ctx context.Context, at string) (*Info, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	target, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	network, address := target.Scheme, target.Host
	switch target.Scheme {
	case "unix":
		address = target.Path
	case "tcp":
	default:
		return nil, fmt.Errorf("only unix:// and tcp:// can be asked, not %s", target.Scheme)
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, address)
		},
		DisableKeepAlives: true,
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://podman"+infoPath, nil)
	if err != nil {
		return nil, err
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", resp.Status)
	}
	var info Info
	if err := json.NewDecoder(resp.Body).Decode(&info); err != nil {
		return nil, fmt.Errorf("its answer is not understood: %w", err)
	}
	return &info, nil
}

func commandInfo(ctx context.Context, binary string) (*Info, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, "info", "--format", "json")
	var said strings.Builder
	cmd.Stderr = &said
	cmd.WaitDelay = time.Second
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, strings.TrimSpace(said.String()))
	}
	var info Info
	if err := json.Unmarshal(out, &info); err != nil {
		return nil, fmt.Errorf("its answer is not understood: %w", err)
	}
	return &info, nil
}
