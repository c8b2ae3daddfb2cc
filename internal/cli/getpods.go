package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func newGetPods(s *session) *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use:               "pods [NAME...]",
		Aliases:           []string{"pod", "po"},
		Short:             "List pods",
		ValidArgsFunction: s.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			namespace := s.namespace
			if f.all {
				namespace = ""
			}
			if f.all && len(args) > 0 {
				return fmt.Errorf("a pod can't be named across all namespaces: leave out -A or the name")
			}
			return s.getPods(cmd.Context(), namespace, args, f.format.value)
		},
	}
	addGetFlags(cmd, &f)
	return cmd
}

func (s *session) getPods(ctx context.Context, namespace string, names []string, format string) error {
	c := s.client()
	wanted := make([]string, 0, len(names))
	for _, n := range names {
		resolved, err := s.resolve(ctx, c, namespace, n, presentOnly)
		if err != nil {
			return err
		}
		wanted = append(wanted, resolved)
	}
	if format == "json" || format == "yaml" {
		return s.podDocument(ctx, c, namespace, wanted, format)
	}
	return s.podRows(ctx, c, namespace, wanted, format == "wide")
}

// podDocument prints a PodList, or the Pod when one was asked for by name.
func (s *session) podDocument(ctx context.Context, c *client, namespace string, names []string, format string) error {
	if len(names) == 1 {
		p, err := c.pod(ctx, namespace, names[0])
		if err != nil {
			return err
		}
		return object(s.Stdout, format, p)
	}
	list, err := c.pods(ctx, namespace)
	if err != nil {
		return err
	}
	if len(names) > 0 {
		list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool { return !slices.Contains(names, p.Name) })
	}
	return object(s.Stdout, format, list)
}

// podRows prints the agent's table.
func (s *session) podRows(ctx context.Context, c *client, namespace string, names []string, wide bool) error {
	got, err := c.podTable(ctx, namespace)
	if err != nil {
		return err
	}
	shown := func(i int) bool { return wide || got.ColumnDefinitions[i].Priority == 0 }
	var header []string
	if namespace == "" {
		header = append(header, "NAMESPACE")
	}
	for i, c := range got.ColumnDefinitions {
		if shown(i) {
			header = append(header, strings.ToUpper(c.Name))
		}
	}
	t := newTable(s.Stdout, header...)
	for _, row := range got.Rows {
		var meta metav1.PartialObjectMetadata
		if err := json.Unmarshal(row.Object.Raw, &meta); err != nil {
			return fmt.Errorf("read a row of pods: %w", err)
		}
		if len(names) > 0 && !slices.Contains(names, meta.Name) {
			continue
		}
		var cells []string
		if namespace == "" {
			cells = append(cells, meta.Namespace)
		}
		for i, cell := range row.Cells {
			if shown(i) {
				cells = append(cells, cellText(cell))
			}
		}
		t.row(cells...)
	}
	if t.rows == 0 {
		s.noneFound(namespace)
	}
	return t.flush()
}

func cellText(v any) string {
	if f, ok := v.(float64); ok {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}
