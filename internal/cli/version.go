package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"podstead.io/podstead/internal/version"
	"podstead.io/podstead/internal/wire"
)

func newVersion(s *session) *cobra.Command {
	var clientOnly bool
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the versions of the client and the agent",
		Args:  cobra.NoArgs,
	}
	format := addOutput(cmd, "", "json", "yaml")
	cmd.Flags().BoolVar(&clientOnly, "client", false, "do not ask the agent")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		both := struct {
			Client version.Info  `json:"client"`
			Agent  *wire.Version `json:"agent,omitempty"`
		}{Client: version.Get()}
		var asked error
		if !clientOnly {
			v, err := s.client().version(cmd.Context())
			if asked = err; err == nil {
				both.Agent = &v
			}
		}
		if format.value != "" {
			if err := object(s.Stdout, format.value, both); err != nil {
				return err
			}
			return asked
		}
		fmt.Fprintf(s.Stdout, "Client: %s\n", both.Client.Version)
		if a := both.Agent; a != nil {
			fmt.Fprintf(s.Stdout, "Agent:  %s (Kubernetes %s, Podman bindings %s)\n", a.Podstead, a.GitVersion, a.Bindings)
		}
		return asked
	}
	return cmd
}
