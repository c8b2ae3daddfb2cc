// Package cli is the client, podstead: verbs that ask the agent over its unix
// socket and print what it answers. Arguments go in; text, and an exit status of
// 0 or 1, come out.
//
// It imports nothing of the agent but the types that travel (internal/wire), so
// that it stays small and starts at once: columns, validation and SQL are the
// agent's. It owns no goroutine beyond those of net/http.
package cli

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"podstead.io/podstead/internal/wire"
)

// Env is what the client has of the world.
type Env struct {
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Getenv func(string) string
	Now    func() time.Time // for ages
}

// Run runs one command line, without the program's name, and returns its exit
// status.
func Run(ctx context.Context, env Env, args []string) int {
	root := newRoot(env)
	root.SetArgs(args)
	if err := root.ExecuteContext(ctx); err != nil {
		if text := err.Error(); text != "" {
			fmt.Fprintf(env.Stderr, "error: %s\n", text)
		}
		return 1
	}
	return 0
}

// session is what all verbs share once the flags are parsed.
type session struct {
	Env
	socket    string
	namespace string
}

func (s *session) client() *client { return newClient(s.socket) }

func newRoot(env Env) *cobra.Command {
	s := &session{Env: env}
	root := &cobra.Command{
		Use:   "podstead",
		Short: "Kubernetes pods on this machine: apply them, look at them, ask why",
		Long: `podstead talks to the agent, podsteadd, on this machine.

Pods come from manifest directories, URLs and from "podstead apply"; whatever
the agent knows and did can be asked with "podstead why" and in SQL.`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          cobra.NoArgs,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.SetIn(env.Stdin)
	root.SetOut(env.Stdout)
	root.SetErr(env.Stderr)
	socket := wire.DefaultSocket
	if v := env.Getenv(wire.SocketVariable); v != "" {
		socket = v
	}
	flags := root.PersistentFlags()
	flags.StringVar(&s.socket, "socket", socket, "the agent's unix socket; "+wire.SocketVariable+" sets it too")
	flags.StringVarP(&s.namespace, "namespace", "n", defaultNamespace, "namespace of the pods")
	root.AddCommand(
		newApply(s), newDelete(s), newGet(s), newDescribe(s), newWhy(s),
		newSQL(s), newDoctor(s), newVersion(s),
	)
	return root
}

const defaultNamespace = "default"

// silent is an error that has been printed already.
type silent struct{}

func (silent) Error() string { return "" }
