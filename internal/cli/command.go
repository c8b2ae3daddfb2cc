package cli

import "github.com/spf13/cobra"

// NewCommand is the tree of all verbs, from which manual pages and shell
// completions are made.
func NewCommand(env Env) *cobra.Command { return newRoot(env) }
