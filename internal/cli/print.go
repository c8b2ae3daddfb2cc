package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

// aligned is a tabwriter that leaves no spaces at the ends of lines.
type aligned struct {
	*tabwriter.Writer
	lines bytes.Buffer
	to    io.Writer
}

func newAligned(to io.Writer, minWidth, tabWidth, padding int) *aligned {
	a := &aligned{to: to}
	a.Writer = tabwriter.NewWriter(&a.lines, minWidth, tabWidth, padding, ' ', 0)
	return a
}

func (a *aligned) flush() error {
	if err := a.Flush(); err != nil {
		return err
	}
	for line := range bytes.Lines(a.lines.Bytes()) {
		if _, err := fmt.Fprintf(a.to, "%s\n", bytes.TrimRight(line, " \n")); err != nil {
			return err
		}
	}
	return nil
}

// table prints aligned columns as kubectl does.
type table struct {
	out    *aligned
	header []string
	rows   int
}

func newTable(w io.Writer, header ...string) *table {
	return &table{out: newAligned(w, 6, 4, 3), header: header}
}

// row adds a row; the header goes out with the first.
func (t *table) row(cells ...string) {
	if t.rows == 0 && len(t.header) > 0 {
		t.line(t.header)
	}
	t.rows++
	t.line(cells)
}

func (t *table) line(cells []string) {
	for i, c := range cells {
		if i > 0 {
			fmt.Fprint(t.out, "\t")
		}
		fmt.Fprint(t.out, printable(c))
	}
	fmt.Fprintln(t.out)
}

func (t *table) flush() error { return t.out.flush() }

// printable takes out what would break the columns or steer the terminal: these
// texts come from manifests, containers and registries.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case !unicode.IsPrint(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// plain is printable text that may have several lines.
func plain(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = printable(lines[i])
	}
	return strings.Join(lines, "\n")
}

// age is the time since t in kubectl's short form.
func (s *session) age(t time.Time) string {
	if t.IsZero() {
		return "<unknown>"
	}
	return duration.HumanDuration(s.Now().Sub(t))
}

// stamp is a stored time to the second.
func stamp(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return text
	}
	return t.UTC().Format(time.RFC3339)
}

// since is the age of a stored time.
func (s *session) since(text string) string {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return "<none>"
	}
	return s.age(t)
}

// output is a choice of formats for a flag.
type output struct {
	value   string
	allowed []string
}

func (o *output) String() string { return o.value }
func (o *output) Type() string   { return strings.Join(o.allowed, "|") }

func (o *output) Set(v string) error {
	for _, a := range o.allowed {
		if v == a {
			o.value = v
			return nil
		}
	}
	return fmt.Errorf("it must be one of %s", strings.Join(o.allowed, ", "))
}

func addOutput(cmd *cobra.Command, value string, allowed ...string) *output {
	o := &output{value: value, allowed: allowed}
	cmd.Flags().VarP(o, "output", "o", "output format")
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	return o
}

// document prints JSON text as it is to be read, or as YAML.
func document(w io.Writer, format string, text []byte) error {
	if format == "yaml" {
		out, err := yaml.JSONToYAML(text)
		if err != nil {
			return err
		}
		_, err = w.Write(out)
		return err
	}
	var b bytes.Buffer
	if err := json.Indent(&b, bytes.TrimSpace(text), "", "    "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := b.WriteTo(w)
	return err
}

// object is document of a value.
func object(w io.Writer, format string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return document(w, format, text)
}
