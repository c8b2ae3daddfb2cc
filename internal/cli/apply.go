package cli

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"podstead.io/podstead/internal/wire"
)

func newApply(s *session) *cobra.Command {
	var paths []string
	var recursive bool
	var dryRun string
	cmd := &cobra.Command{
		Use:   "apply -f FILE|DIR|-",
		Short: "Create or update pods from manifests",
		Long: `Sends each file to the agent. A file is taken whole or not at all; the others
are sent in any case, and the exit status is 1 if any was refused.`,
		Example: `  podstead apply -f web.yaml
  podstead apply -f manifests/ -f more.json
  sed s/v1/v2/ web.yaml | podstead apply -f -`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if dryRun != "none" && dryRun != "server" {
				return fmt.Errorf("--dry-run must be none or server")
			}
			files, err := s.readManifests(cmd.Context(), paths, recursive)
			if err != nil {
				return err
			}
			return s.apply(cmd.Context(), files, dryRun == "server")
		},
	}
	cmd.Flags().StringArrayVarP(&paths, "filename", "f", nil, "file, directory, or - for standard input; may be given several times")
	cmd.Flags().BoolVarP(&recursive, "recursive", "R", false, "look into the directories of a directory too")
	cmd.Flags().StringVar(&dryRun, "dry-run", "none", "server: only say what would be done")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "server"
	_ = cmd.MarkFlagRequired("filename")
	return cmd
}

func (s *session) apply(ctx context.Context, files []manifestFile, dryRun bool) error {
	c := s.client()
	suffix := ""
	if dryRun {
		suffix = " (server dry run)"
	}
	refused := false
	for _, f := range files {
		a, done, err := c.submit(ctx, f, s.namespace, dryRun)
		var refusal *statusError
		switch {
		case errors.As(err, &refusal):
			s.printRefusal(f.name, refusal.Refusal)
			refused = true
		case err != nil:
			return err
		}
		s.printWarnings(a.header)
		for _, p := range done.Items {
			fmt.Fprintf(s.Stdout, "pod/%s %s%s\n", p.Name, p.Result, suffix)
		}
	}
	if refused {
		return silent{}
	}
	return nil
}

// printRefusal prints every error with its place: file:line: field: message.
func (s *session) printRefusal(file string, r wire.Refusal) {
	if len(r.Rejections) == 0 {
		fmt.Fprintf(s.Stderr, "error: %s: %s\n", file, plain(r.Message))
		return
	}
	fmt.Fprintf(s.Stderr, "error: %s is refused, and nothing of it was applied:\n", file)
	for _, rejection := range r.Rejections {
		for _, e := range rejection.Errors {
			fmt.Fprintf(s.Stderr, "  %s: %s\n", location(file, rejection.Place, e), plain(e.Message))
		}
	}
	if r.Code == http.StatusConflict {
		fmt.Fprintln(s.Stderr, "Change or remove the pod where it comes from, or give this one another name.")
	}
}

// location says where an error is: by its line when that is known, else by the
// document.
func location(file, place string, e wire.FieldError) string {
	var parts []string
	switch {
	case e.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d", file, e.Line))
	case place != "":
		parts = append(parts, place)
	default:
		parts = append(parts, file)
	}
	if e.Field != "" {
		parts = append(parts, printable(e.Field))
	}
	return strings.Join(parts, ": ")
}

// printWarnings prints the Warning headers of an answer.
func (s *session) printWarnings(h http.Header) {
	for _, value := range h.Values("Warning") {
		if text, ok := warningText(value); ok {
			fmt.Fprintf(s.Stderr, "Warning: %s\n", printable(text))
		}
	}
}

// warningText is the text of a header such as 299 - "text", as Kubernetes sends
// it (RFC 9111, section 5.5, before it was obsoleted; RFC 7234).
func warningText(value string) (string, bool) {
	_, quoted, ok := strings.Cut(value, " - ")
	if !ok || len(quoted) < 2 || quoted[0] != '"' {
		return "", false
	}
	var b strings.Builder
	for i := 1; i < len(quoted); i++ {
		switch quoted[i] {
		case '"':
			return b.String(), true
		case '\\':
			i++
			if i == len(quoted) {
				return "", false
			}
		}
		b.WriteByte(quoted[i])
	}
	return "", false
}
