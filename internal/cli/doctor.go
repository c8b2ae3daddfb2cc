package cli

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"podstead.io/podstead/internal/cli/doctor"
	"podstead.io/podstead/internal/version"
	"podstead.io/podstead/internal/wire"
)

func newDoctor(s *session) *cobra.Command {
	var rootDir, podmanURL string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check this machine, and say how to mend what is wrong",
		Long: `Checks the agent, Podman and what both need of the machine, whether or not the
agent runs. The exit status is 1 if anything fails. Run it as root: others see
less.`,
		Args: cobra.NoArgs,
	}
	format := addOutput(cmd, "", "json", "yaml")
	cmd.Flags().StringVar(&rootDir, "root-dir", "/var/lib/podstead", "the agent's --root-dir, if it does not run")
	cmd.Flags().StringVar(&podmanURL, "podman-url", "", "the agent's --podman-url, if it does not run")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		findings := doctor.Examine(doctor.Gather(cmd.Context(), doctor.Options{
			Agent: asker{s.client()}, Socket: s.socket, Client: version.Get().Version,
			RootDir: rootDir, PodmanURL: podmanURL, Getenv: s.Getenv, Now: s.Now(),
		}))
		if format.value != "" {
			if err := object(s.Stdout, format.value, findings); err != nil {
				return err
			}
		} else if err := printFindings(s.Stdout, findings); err != nil {
			return err
		}
		if doctor.Failed(findings) {
			return silent{}
		}
		return nil
	}
	return cmd
}

func printFindings(w io.Writer, findings []doctor.Finding) error {
	count := map[doctor.Level]int{}
	t := newTable(w)
	for _, f := range findings {
		count[f.Level]++
		first, rest, _ := strings.Cut(f.Found, "\n")
		t.row(string(f.Level), f.Check, first)
		for line := range strings.Lines(rest) {
			t.row("", "", strings.TrimSpace(line))
		}
		if f.Remedy != "" {
			t.row("", "", "→ "+f.Remedy)
		}
	}
	if err := t.flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\n%d OK, %d WARN, %d FAIL\n", count[doctor.OK], count[doctor.Warn], count[doctor.Fail])
	return err
}

// asker asks the agent for doctor.
type asker struct{ client *client }

func (a asker) Version(ctx context.Context) (wire.Version, error) { return a.client.version(ctx) }
func (a asker) Agent(ctx context.Context) (wire.Agent, error)     { return a.client.agent(ctx) }

// NotReady reads /readyz, which lists its checks when one fails.
func (a asker) NotReady(ctx context.Context) ([]string, error) {
	ready, err := a.client.send(ctx, request{method: http.MethodGet, path: wire.PathReady})
	if err != nil {
		return nil, err
	}
	if ready.status == http.StatusOK {
		return nil, nil
	}
	var failed []string
	for line := range strings.Lines(string(ready.body)) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "[-]"); ok {
			failed = append(failed, text)
		}
	}
	if failed == nil {
		failed = []string{strings.TrimSpace(string(ready.body))}
	}
	return failed, nil
}
