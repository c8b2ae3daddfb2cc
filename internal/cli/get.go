package cli

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// getFlags are those of all resources.
type getFlags struct {
	all    bool
	format *output
	limit  int
}

// newGet has a subcommand for each resource, so that each has its own names to
// complete and its own help.
func newGet(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "List pods, containers, sources, rejections or transitions",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newGetPods(s))
	for _, l := range listings {
		cmd.AddCommand(newGetListing(s, l))
	}
	return cmd
}

func addGetFlags(cmd *cobra.Command, f *getFlags) {
	f.format = addOutput(cmd, "", "wide", "json", "yaml")
	cmd.Flags().BoolVarP(&f.all, "all-namespaces", "A", false, "pods of all namespaces")
}

// listing is a resource that is read by SQL. Its query knows :namespace (empty:
// all), :pod (empty: all) and :limit.
type listing struct {
	name    string
	aliases []string
	short   string
	query   string
	columns []column
	// everywhere: the resource is the node's, and -n only narrows it.
	everywhere bool
	byPod      bool // it takes the name of a pod
	limited    bool // it is history: the latest are shown
}

// column prints one column of a listing's query.
type column struct {
	header string
	key    string
	wide   bool // only with -o wide
	pod    bool // only with -A
	show   func(s *session, cell string) string
}

const whichPods = ` (:namespace = '' OR namespace = :namespace) AND (:pod = '' OR pod = :pod) `

var listings = []listing{
	{
		name: "containers", aliases: []string{"container"}, byPod: true,
		short: "List wanted containers with their latest attempt",
		query: `SELECT * FROM containers WHERE` + whichPods + `ORDER BY namespace, pod, kind = 'container', container`,
		columns: []column{
			{header: "NAMESPACE", key: "namespace", pod: true}, {header: "POD", key: "pod"}, {header: "CONTAINER", key: "container"},
			{header: "READY", key: "ready", show: yesNo}, {header: "STATE", key: "state"}, {header: "REASON", key: "reason"},
			{header: "RESTARTS", key: "restarts"}, {header: "AGE", key: "started_at", show: (*session).since}, {header: "IMAGE", key: "image"},
			{header: "EXIT CODE", key: "exit_code", wide: true}, {header: "ENDED BY", key: "end_cause", wide: true},
			{header: "CONTAINER ID", key: "container_id", wide: true},
		},
	},
	{
		name: "sources", aliases: []string{"source"}, everywhere: true,
		short: "List sources of manifests and whether they can be read",
		query: `SELECT s.*, s.synced AND coalesce(s.last_error, '') = '' AS current,
			(SELECT count(*) FROM pods p WHERE p.source = s.id) AS pods,
			(SELECT count(*) FROM rejections r WHERE r.source = s.id) AS rejections FROM sources s ORDER BY id`,
		columns: []column{
			{header: "KIND", key: "kind"}, {header: "LOCATION", key: "location", show: orAPI}, {header: "SYNCED", key: "current", show: yesNo},
			{header: "PODS", key: "pods"}, {header: "REJECTIONS", key: "rejections"}, {header: "LAST CHANGE", key: "last_sync_at", show: (*session).since},
			{header: "ERROR", key: "last_error"}, {header: "SINCE", key: "last_error_at", wide: true, show: (*session).since},
		},
	},
	{
		name: "rejections", aliases: []string{"rejection"}, everywhere: true, byPod: true,
		short: "List manifests that were refused, with what is wrong with them",
		query: `SELECT r.source, r.place, r.namespace, r.pod, r.reason, e.value ->> '$.line' AS line, e.value ->> '$.field' AS field,
			e.value ->> '$.message' AS message, r.first_seen_at FROM rejections r LEFT JOIN json_each(r.errors) e
			WHERE` + whichPods + `ORDER BY r.source, r.place, r.id, e.key`,
		columns: []column{
			{header: "SOURCE", key: "source", wide: true}, {header: "PLACE", key: "place"}, {header: "LINE", key: "line"}, {header: "POD", key: "pod"},
			{header: "REASON", key: "reason"}, {header: "FIELD", key: "field"}, {header: "AGE", key: "first_seen_at", show: (*session).since}, {header: "MESSAGE", key: "message"},
		},
	},
	{
		name: "transitions", aliases: []string{"transition"}, byPod: true, limited: true,
		short: "List the latest changes of state and their causes",
		query: `SELECT at, namespace, pod, container, "from", event, "to", cause, detail, generation, attempt, pod_uid FROM
			(SELECT rowid AS n, * FROM transitions WHERE` + whichPods + `ORDER BY rowid DESC LIMIT :limit) ORDER BY n`,
		columns: []column{
			{header: "TIME", key: "at", show: func(_ *session, v string) string { return stamp(v) }}, {header: "NAMESPACE", key: "namespace", pod: true},
			{header: "POD", key: "pod"}, {header: "CONTAINER", key: "container"}, {header: "FROM", key: "from"}, {header: "EVENT", key: "event"}, {header: "TO", key: "to"},
			{header: "CAUSE", key: "cause"}, {header: "GENERATION", key: "generation", wide: true}, {header: "ATTEMPT", key: "attempt", wide: true},
			{header: "POD UID", key: "pod_uid", wide: true}, {header: "DETAIL", key: "detail"},
		},
	},
}

// orAPI is a location; the source that has none is the agent itself.
func orAPI(_ *session, v string) string {
	if v == "" {
		return "the agent's API: podstead apply, POST /manifests"
	}
	return v
}

func yesNo(_ *session, v string) string {
	if v == "1" {
		return "true"
	}
	return "false"
}

func newGetListing(s *session, l listing) *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:     l.name,
		Aliases: l.aliases,
		Short:   l.short,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace := s.namespace
			if f.all || l.everywhere && !cmd.Flags().Changed("namespace") {
				namespace = ""
			}
			var name string
			if len(args) > 0 {
				name = args[0]
			}
			return s.printListing(cmd.Context(), l, f, namespace, name)
		},
	}
	if l.byPod {
		cmd.Use += " [POD]"
		cmd.Args = cobra.MaximumNArgs(1)
		cmd.ValidArgsFunction = s.completePods
	}
	addGetFlags(cmd, &f)
	if l.limited {
		cmd.Flags().IntVar(&f.limit, "limit", 100, "how many of the latest to show")
	}
	return cmd
}

func (s *session) printListing(ctx context.Context, l listing, f getFlags, namespace, name string) error {
	c := s.client()
	if name != "" {
		resolved, err := s.resolve(ctx, c, namespace, name, pastToo)
		if err != nil && (!isNotFound(err) || l.name != "rejections") { // a refused pod may never have existed
			return err
		}
		name = resolved
	}
	rows, err := c.query(ctx, l.query, used(l.query, map[string]any{"namespace": namespace, "pod": name, "limit": f.limit}))
	if err != nil {
		return err
	}
	s.warnTruncated(rows.Truncated)
	if f.format.value == "json" || f.format.value == "yaml" {
		return document(s.Stdout, f.format.value, objects(rows))
	}
	shown := slices.DeleteFunc(slices.Clone(l.columns), func(c column) bool {
		return c.wide && f.format.value != "wide" || c.pod && !f.all
	})
	var header []string
	for _, c := range shown {
		header = append(header, c.header)
	}
	t := newTable(s.Stdout, header...)
	for _, row := range rows.Rows {
		var cells []string
		for _, c := range shown {
			cell := text(row[slices.Index(rows.Columns, c.key)])
			if c.show != nil {
				cell = c.show(s, cell)
			}
			cells = append(cells, cell)
		}
		t.row(cells...)
	}
	if t.rows == 0 {
		s.noneFound(namespace)
	}
	return t.flush()
}

func (s *session) noneFound(namespace string) {
	if namespace == "" {
		fmt.Fprintln(s.Stderr, "No resources found")
		return
	}
	fmt.Fprintf(s.Stderr, "No resources found in %s namespace.\n", namespace)
}

func (s *session) warnTruncated(truncated string) {
	if truncated != "" {
		fmt.Fprintf(s.Stderr, "warning: this is not all: the agent's limit of %s was reached; narrow the query\n", truncated)
	}
}

// completePods offers the names of pods to the shell.
func (s *session) completePods(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	list, err := s.client().pods(cmd.Context(), s.namespace)
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, p := range list.Items {
		if strings.HasPrefix(p.Name, prefix) && !slices.Contains(args, p.Name) {
			names = append(names, p.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
