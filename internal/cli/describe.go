package cli

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/wire"
)

func newDescribe(s *session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "describe",
		Short: "Show everything about a pod",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(&cobra.Command{
		Use:               "pod NAME...",
		Aliases:           []string{"pods", "po"},
		Short:             "Show everything about a pod, its latest events and transitions included",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: s.completePods,
		RunE: func(cmd *cobra.Command, args []string) error {
			for i, name := range args {
				if i > 0 {
					fmt.Fprint(s.Stdout, "\n\n")
				}
				if err := s.describePod(cmd.Context(), name); err != nil {
					return err
				}
			}
			return nil
		},
	})
	return cmd
}

// The latest rows about one pod, oldest first.
const (
	eventsOf = `SELECT type, reason, last_seen_at, count, container, message FROM (
		SELECT * FROM events WHERE pod_uid = :uid ORDER BY last_seen_at DESC, id DESC LIMIT 20) ORDER BY last_seen_at, id`
	transitionsOf = `SELECT at, container, "from", "to", event, cause, detail FROM (
		SELECT rowid AS n, * FROM transitions WHERE pod_uid = :uid ORDER BY rowid DESC LIMIT 10) ORDER BY n`
)

func (s *session) describePod(ctx context.Context, name string) error {
	c := s.client()
	name, err := s.resolve(ctx, c, s.namespace, name, presentOnly)
	if err != nil {
		return err
	}
	p, err := c.pod(ctx, s.namespace, name)
	if err != nil {
		return err
	}
	uid := map[string]any{"uid": string(p.UID)}
	events, err := c.query(ctx, eventsOf, uid)
	if err != nil {
		return err
	}
	transitions, err := c.query(ctx, transitionsOf, uid)
	if err != nil {
		return err
	}
	d := newSections(s.Stdout)
	d.pod(p)
	d.containers("Init Containers", p.Spec.InitContainers, p.Status.InitContainerStatuses)
	d.containers("Containers", p.Spec.Containers, p.Status.ContainerStatuses)
	d.conditions(p.Status.Conditions)
	d.volumes(p.Spec.Volumes)
	d.field("QoS Class", string(p.Status.QOSClass))
	s.describeEvents(d, events)
	describeTransitions(d, transitions)
	return d.out.flush()
}

// sections writes kubectl's indented "Name:  value" lines.
type sections struct {
	out    *aligned
	indent string
}

func newSections(w io.Writer) *sections {
	return &sections{out: newAligned(w, 0, 8, 2)}
}

func (d *sections) line(cells ...string) {
	for i := range cells {
		cells[i] = printable(cells[i])
	}
	fmt.Fprintf(d.out, "%s%s\n", d.indent, strings.Join(cells, "\t"))
}

// field writes a value, and nothing when there is none.
func (d *sections) field(name, value string) {
	if value != "" {
		d.line(name+":", value)
	}
}

// section writes a heading and, indented, what fn writes.
func (d *sections) section(name string, fn func()) {
	fmt.Fprintf(d.out, "%s%s:\n", d.indent, printable(name))
	outer := d.indent
	d.indent += "  "
	fn()
	d.indent = outer
}

func (d *sections) list(name string, values []string) {
	for i, v := range values {
		if i > 0 {
			name = ""
		} else {
			name += ":"
		}
		d.line(name, v)
	}
}

func (d *sections) pod(p *corev1.Pod) {
	d.field("Name", p.Name)
	d.field("Namespace", p.Namespace)
	d.field("Node", p.Spec.NodeName)
	if p.Status.StartTime != nil {
		d.field("Start Time", date(*p.Status.StartTime))
	}
	annotations := maps.Clone(p.Annotations)
	source := ownerName(annotations[wire.AnnotationSource], annotations[wire.AnnotationManifest])
	delete(annotations, wire.AnnotationSource)
	delete(annotations, wire.AnnotationManifest)
	d.list("Labels", pairs(p.Labels))
	d.list("Annotations", pairs(annotations))
	d.field("Source", source)
	if p.DeletionTimestamp != nil {
		d.field("Status", fmt.Sprintf("Terminating (ends by %s)", date(*p.DeletionTimestamp)))
	} else {
		d.field("Status", string(p.Status.Phase))
	}
	d.field("Reason", p.Status.Reason)
	d.field("Message", p.Status.Message)
	d.field("IP", p.Status.PodIP)
}

func (d *sections) containers(title string, list []corev1.Container, statuses []corev1.ContainerStatus) {
	if len(list) == 0 {
		return
	}
	d.section(title, func() {
		for _, c := range list {
			i := slices.IndexFunc(statuses, func(s corev1.ContainerStatus) bool { return s.Name == c.Name })
			d.section(c.Name, func() {
				var status corev1.ContainerStatus
				if i >= 0 {
					status = statuses[i]
				}
				d.container(c, status)
			})
		}
	})
}

func (d *sections) container(c corev1.Container, status corev1.ContainerStatus) {
	d.field("Container ID", status.ContainerID)
	d.field("Image", c.Image)
	d.field("Image ID", status.ImageID)
	var ports, hostPorts []string
	for _, p := range c.Ports {
		ports = append(ports, fmt.Sprintf("%d/%s", p.ContainerPort, p.Protocol))
		if p.HostPort != 0 {
			hostPorts = append(hostPorts, fmt.Sprintf("%d/%s", p.HostPort, p.Protocol))
		}
	}
	d.field("Ports", strings.Join(ports, ", "))
	d.field("Host Ports", strings.Join(hostPorts, ", "))
	d.list("Command", c.Command)
	d.list("Args", c.Args)
	d.state("State", status.State)
	if status.LastTerminationState != (corev1.ContainerState{}) {
		d.state("Last State", status.LastTerminationState)
	}
	d.field("Ready", fmt.Sprint(status.Ready))
	d.field("Restart Count", fmt.Sprint(status.RestartCount))
	d.list("Limits", resources(c.Resources.Limits))
	d.list("Requests", resources(c.Resources.Requests))
	var env []string
	for _, e := range c.Env {
		env = append(env, e.Name+"="+e.Value)
	}
	d.list("Environment", env)
	var mounts []string
	for _, m := range c.VolumeMounts {
		mode := "rw"
		if m.ReadOnly {
			mode = "ro"
		}
		mounts = append(mounts, fmt.Sprintf("%s from %s (%s)", m.MountPath, m.Name, mode))
	}
	d.list("Mounts", mounts)
}

func (d *sections) state(name string, s corev1.ContainerState) {
	deeper := func(fn func()) {
		outer := d.indent
		d.indent += "  "
		fn()
		d.indent = outer
	}
	switch {
	case s.Running != nil:
		d.field(name, "Running")
		deeper(func() { d.field("Started", date(s.Running.StartedAt)) })
	case s.Terminated != nil:
		d.field(name, "Terminated")
		deeper(func() {
			d.field("Reason", s.Terminated.Reason)
			d.field("Message", s.Terminated.Message)
			d.field("Exit Code", fmt.Sprint(s.Terminated.ExitCode))
			d.field("Started", date(s.Terminated.StartedAt))
			d.field("Finished", date(s.Terminated.FinishedAt))
		})
	default:
		d.field(name, "Waiting")
		if s.Waiting != nil {
			deeper(func() {
				d.field("Reason", s.Waiting.Reason)
				d.field("Message", s.Waiting.Message)
			})
		}
	}
}

func (d *sections) conditions(list []corev1.PodCondition) {
	if len(list) == 0 {
		return
	}
	d.section("Conditions", func() {
		d.line("Type", "Status", "Reason")
		for _, c := range list {
			d.line(string(c.Type), string(c.Status), c.Reason)
		}
	})
}

func (d *sections) volumes(list []corev1.Volume) {
	if len(list) == 0 {
		return
	}
	d.section("Volumes", func() {
		for _, v := range list {
			switch {
			case v.EmptyDir != nil:
				d.line(v.Name+":", strings.TrimSpace("emptyDir "+string(v.EmptyDir.Medium)+limit(v.EmptyDir)))
			case v.HostPath != nil:
				d.line(v.Name+":", "hostPath "+v.HostPath.Path)
			default:
				d.line(v.Name + ":")
			}
		}
	})
}

func limit(e *corev1.EmptyDirVolumeSource) string {
	if e.SizeLimit == nil {
		return ""
	}
	return " up to " + e.SizeLimit.String()
}

func (s *session) describeEvents(d *sections, events wire.Rows) {
	if len(events.Rows) == 0 {
		d.field("Events", "<none>")
		return
	}
	d.section("Events", func() {
		d.line("Type", "Reason", "Age", "Count", "Container", "Message")
		for _, row := range events.Rows {
			r := cells(row)
			d.line(r[0], r[1], s.since(r[2]), r[3], r[4], r[5])
		}
	})
}

func describeTransitions(d *sections, transitions wire.Rows) {
	if len(transitions.Rows) == 0 {
		return
	}
	d.section("Transitions", func() {
		d.line("Time", "Of", "Change", "Because")
		for _, row := range transitions.Rows {
			r := cells(row)
			of := "pod"
			if r[1] != "" {
				of = r[1]
			}
			change := r[2] + " → " + r[3]
			if r[2] == "" {
				change = r[3]
			}
			d.line(stamp(r[0]), of, change, because(r[5], r[6]))
		}
	})
}

func date(t metav1.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

func pairs(m map[string]string) []string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return out
}

func resources(list corev1.ResourceList) []string {
	var out []string
	for _, name := range slices.Sorted(maps.Keys(list)) {
		q := list[name]
		out = append(out, string(name)+" "+q.String())
	}
	return out
}
