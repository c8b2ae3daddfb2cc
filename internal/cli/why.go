package cli

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"podstead.io/podstead/internal/wire"
)

func newWhy(s *session) *cobra.Command {
	limit := 30
	cmd := &cobra.Command{
		Use:   "why POD[/CONTAINER]",
		Short: "Say why a pod is as it is",
		Long: `Prints what happened to a pod or a container of it and what caused it, oldest
first, then what stands in the way now and what the agent will do next. Pods that
are gone can be asked about too.`,
		Example: `  podstead why web
  podstead why web/nginx`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: s.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			pod, container, _ := strings.Cut(args[0], "/")
			return s.why(cmd.Context(), pod, container, limit)
		},
	}
	cmd.Flags().IntVar(&limit, "limit", limit, "how many of the latest changes to show")
	return cmd
}

// The questions that why asks. :container is empty for all.
const (
	whyNow = `SELECT w.state, w.since, w.cause, w.detail, p.source, p.place FROM why w
		LEFT JOIN pods p ON p.namespace = w.namespace AND p.name = w.pod
		WHERE w.namespace = :namespace AND w.pod = :pod AND w.container = :container`
	whyHistory = `SELECT at, container, machine, event, cause, detail, attempt FROM (SELECT rowid AS n, * FROM transitions
		WHERE namespace = :namespace AND pod = :pod AND (:container = '' OR container = :container) ORDER BY rowid DESC LIMIT :limit) ORDER BY n`
	whyRefused = `SELECT r.source, r.place, r.first_seen_at, e.value ->> '$.field', e.value ->> '$.message' FROM rejections r
		LEFT JOIN json_each(r.errors) e WHERE r.namespace = :namespace AND r.pod = :pod ORDER BY r.id, e.key`
	whyNext = `SELECT container, desired, observed, action, until_at FROM drift
		WHERE namespace = :namespace AND pod = :pod AND (:container = '' OR container = :container) ORDER BY container, action`
	whyWaits = `SELECT container, kind, failures, last_at, message FROM backoffs
		WHERE namespace = :namespace AND pod = :pod AND (:container = '' OR container = :container) AND message <> '' ORDER BY container, kind`
)

func (s *session) why(ctx context.Context, name, container string, limit int) error {
	c := s.client()
	name, err := s.resolve(ctx, c, s.namespace, name, pastToo)
	if err != nil {
		return err
	}
	params := map[string]any{"namespace": s.namespace, "pod": name, "container": container, "limit": limit}
	ask := func(query string) (wire.Rows, error) { return c.query(ctx, query, used(query, params)) }
	now, err := ask(whyNow)
	if err != nil {
		return err
	}
	history, err := ask(whyHistory)
	if err != nil {
		return err
	}
	refused, err := ask(whyRefused)
	if err != nil {
		return err
	}
	next, err := ask(whyNext)
	if err != nil {
		return err
	}
	waits, err := ask(whyWaits)
	if err != nil {
		return err
	}
	if container != "" && len(now.Rows) == 0 && len(history.Rows) == 0 {
		return fmt.Errorf("pod %s/%s has no container %s, and never had", s.namespace, name, container)
	}
	subject := "Pod " + s.namespace + "/" + name
	if container != "" {
		subject = "Container " + container + " of pod " + s.namespace + "/" + name
	}
	s.printState(subject, now)
	if err := s.printHistory(history); err != nil {
		return err
	}
	s.printObstacles(refused)
	s.printFailures(waits)
	return s.printNext(next)
}

func (s *session) printState(subject string, now wire.Rows) {
	if len(now.Rows) == 0 {
		fmt.Fprintf(s.Stdout, "%s is known, and nothing was done about it yet.\n", subject)
		return
	}
	r := cells(now.Rows[0])
	state, since, cause, detail, source, place := r[0], r[1], r[2], r[3], r[4], r[5]
	fmt.Fprintf(s.Stdout, "%s is %s since %s (%s ago): %s.\n", subject, state, stamp(since), s.since(since), because(cause, detail))
	if source != "" {
		fmt.Fprintf(s.Stdout, "It is wanted by %s.\n", printable(ownerName(source, place)))
	}
}

func ownerName(source, place string) string {
	if place == "" {
		return source
	}
	return source + " (" + place + ")"
}

func (s *session) printHistory(history wire.Rows) error {
	if len(history.Rows) == 0 {
		return nil
	}
	fmt.Fprintf(s.Stdout, "\nWhat happened:\n")
	t := newTable(s.Stdout)
	for _, row := range history.Rows {
		r := cells(row)
		at, container, machine, event, cause, detail, attempt := r[0], r[1], r[2], r[3], r[4], r[5], r[6]
		who := "pod"
		if machine == "container" {
			who = "container " + container
		}
		t.row("  "+stamp(at), who, happened(machine, event, attempt), because(cause, detail))
	}
	return t.flush()
}

func (s *session) printObstacles(refused wire.Rows) {
	if len(refused.Rows) == 0 {
		return
	}
	fmt.Fprintf(s.Stdout, "\nA manifest for it was refused:\n")
	for _, row := range refused.Rows {
		r := cells(row)
		source, place, since, field, message := r[0], r[1], r[2], r[3], r[4]
		if field != "" {
			message = field + ": " + message
		}
		fmt.Fprintf(s.Stdout, "  %s, since %s: %s\n", printable(ownerName(source, place)), stamp(since), printable(message))
	}
}

// printFailures says what failed and is to be tried again.
func (s *session) printFailures(waits wire.Rows) {
	if len(waits.Rows) == 0 {
		return
	}
	fmt.Fprintf(s.Stdout, "\nWhat failed and is tried again:\n")
	for _, row := range waits.Rows {
		r := cells(row)
		container, kind, failures, last, message := r[0], r[1], r[2], r[3], r[4]
		who := "pod"
		if container != "" {
			who = "container " + container
		}
		times := ""
		if failures != "1" {
			times = ", " + failures + " times in a row"
		}
		fmt.Fprintf(s.Stdout, "  %s, %s at %s%s: %s\n", who, cmp.Or(failureWords[kind], kind), stamp(last), times, printable(message))
	}
}

var failureWords = map[string]string{
	"crash":   "ended",
	"image":   "pulling its image failed",
	"create":  "making it failed",
	"sandbox": "making its sandbox failed",
	"volume":  "making its volumes failed",
	"remove":  "removing it failed",
}

func (s *session) printNext(next wire.Rows) error {
	if len(next.Rows) == 0 {
		return nil
	}
	fmt.Fprintf(s.Stdout, "\nWhat comes next:\n")
	t := newTable(s.Stdout)
	for _, row := range next.Rows {
		r := cells(row)
		container, desired, observed, action, until := r[0], r[1], r[2], r[3], r[4]
		who := "pod"
		if container != "" {
			who = "container " + container
		}
		when := ""
		switch {
		case until == "":
		case desired == "deleted":
			when = "at the latest " + stamp(until)
		default:
			when = "not before " + stamp(until)
		}
		t.row("  "+who, "wanted: "+desired, "is: "+observed, action, when)
	}
	return t.flush()
}

// happened is an event of lifecycle's machines in plain words.
func happened(machine, event, attempt string) string {
	words := podWords
	if machine == "container" {
		words = containerWords
	}
	text := cmp.Or(words[event], event)
	if machine == "container" && event == "start" && attempt != "0" {
		text += ", attempt " + attempt
	}
	return text
}

var podWords = map[string]string{
	"submit":   "was submitted",
	"run":      "runs",
	"recreate": "is made anew",
	"succeed":  "succeeded",
	"fail":     "failed",
	"evict":    "was evicted",
	"delete":   "is being deleted",
	"forget":   "is gone",
}

var containerWords = map[string]string{
	"submit":  "waits to be started",
	"start":   "started",
	"pause":   "was paused",
	"resume":  "was resumed",
	"exit":    "ended",
	"vanish":  "was removed",
	"restart": "is to be started again",
	"hold":    "could not be started yet",
}

// because is a cause in plain words, with its detail.
func because(cause, detail string) string {
	text := cmp.Or(causeWords[cause], cause)
	switch {
	case detail == "":
		return text
	case text == "":
		return detail
	}
	return text + ": " + detail
}

var causeWords = map[string]string{
	"source":    "its manifest asks for it",
	"user":      "someone asked for it",
	"probe":     "a probe failed",
	"exit":      "its process ended by itself",
	"oom":       "it ran out of memory",
	"eviction":  "the node ran out of resources",
	"reboot":    "the machine was restarted",
	"admission": "it does not fit this node",
	"image":     "its image can't be had",
	"runtime":   "Podman refused or failed",
	"agent":     "it follows from the above",
}

// cells is a row as it is shown.
func cells(row []any) []string {
	out := make([]string, len(row))
	for i, v := range row {
		out[i] = text(v)
	}
	return out
}

// used are the parameters that a query has.
func used(query string, params map[string]any) map[string]any {
	out := map[string]any{}
	for name, v := range params {
		if strings.Contains(query, ":"+name) {
			out[name] = v
		}
	}
	return out
}
