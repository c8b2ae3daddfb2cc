package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
)

// deletion is the flags of delete.
type deletion struct {
	grace         int64
	wait          bool
	timeout       time.Duration
	ignoreMissing bool
}

func newDelete(s *session) *cobra.Command {
	var d deletion
	var paths []string
	var recursive bool
	cmd := &cobra.Command{
		Use:   "delete -f FILE|DIR|- | delete pod NAME...",
		Short: "Delete pods that were applied",
		Long: `Takes back pods that came through "podstead apply" or POST /manifests, and waits
until they are gone. A pod from a directory or URL is deleted by removing its
manifest there.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(paths) == 0 {
				return fmt.Errorf("give -f FILE, or: delete pod NAME")
			}
			files, err := s.readManifests(cmd.Context(), paths, recursive)
			if err != nil {
				return err
			}
			var pods []podName
			for _, f := range files {
				names, err := podNames(f, s.namespace)
				if err != nil {
					return err
				}
				pods = append(pods, names...)
			}
			return s.deletePods(cmd.Context(), pods, d)
		},
	}
	cmd.Flags().StringArrayVarP(&paths, "filename", "f", nil, "file, directory, or - for standard input; may be given several times")
	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "look into the directories of a directory too")
	flags := cmd.PersistentFlags()
	flags.Int64Var(&d.grace, "grace-period", -1, "seconds the pod has to end; below 0: its own")
	flags.BoolVar(&d.wait, "wait", true, "wait until the pods are gone")
	flags.DurationVar(&d.timeout, "timeout", 0, "how long to wait; 0: as long as it takes")
	flags.BoolVar(&d.ignoreMissing, "ignore-not-found", false, "a pod that is not there is no error")
	cmd.AddCommand(&cobra.Command{
		Use:               "pod NAME...",
		Aliases:           []string{"pods", "po"},
		Short:             "Delete pods by name",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			c := s.client()
			var pods []podName
			for _, name := range args {
				resolved, err := s.resolve(cmd.Context(), c, s.namespace, name, presentOnly)
				if err != nil && !(d.ignoreMissing && isNotFound(err)) {
					return err
				}
				pods = append(pods, podName{namespace: s.namespace, name: resolved})
			}
			return s.deletePods(cmd.Context(), pods, d)
		},
	})
	return cmd
}

// deletePods asks for all to be deleted, goes on past those that are refused,
// and then waits for the rest.
func (s *session) deletePods(ctx context.Context, pods []podName, d deletion) error {
	c := s.client()
	failed := false
	waitFor := map[podName]types.UID{}
	for _, p := range pods {
		there, err := c.pod(ctx, p.namespace, p.name)
		if err == nil {
			err = c.withdraw(ctx, p.namespace, p.name, d.grace)
		}
		switch {
		case isNotFound(err) && d.ignoreMissing:
		case isNotFound(err), isRefusal(err):
			fmt.Fprintf(s.Stderr, "error: %s\n", plain(err.Error()))
			failed = true
		case err != nil:
			return err
		default:
			waitFor[p] = there.UID
			fmt.Fprintf(s.Stdout, "pod %q deleted from %s namespace\n", p.name, p.namespace)
		}
	}
	if d.wait {
		if d.timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, d.timeout, fmt.Errorf("the pods are not gone after %s; they are still being deleted", d.timeout))
			defer cancel()
		}
		for p, uid := range waitFor {
			if err := s.awaitGone(ctx, c, p, uid); err != nil {
				return err
			}
		}
	}
	if failed {
		return silent{}
	}
	return nil
}

const (
	firstLook = 50 * time.Millisecond
	lastLook  = time.Second
)

// awaitGone looks until the pod is gone or another has its name. The agent has
// no watches yet; a client that looks less and less often is no load.
func (s *session) awaitGone(ctx context.Context, c *client, p podName, uid types.UID) error {
	pause := time.NewTimer(0)
	defer pause.Stop()
	for next := firstLook; ; next = min(2*next, lastLook) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-pause.C:
		}
		there, err := c.pod(ctx, p.namespace, p.name)
		switch {
		case isNotFound(err):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case there.UID != uid:
			return nil
		}
		pause.Reset(next)
	}
}
