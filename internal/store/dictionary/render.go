package dictionary

import (
	"fmt"
	"strings"
)

// SQL is the text of schema.sql.
func SQL(tables []Table) string {
	var b strings.Builder
	b.WriteString("-- Generated from migrations/ by go generate ./internal/store; do not edit.\n")
	for _, views := range []bool{false, true} {
		for _, t := range tables {
			if t.View != views {
				continue
			}
			fmt.Fprintf(&b, "\n%s;\n", t.SQL)
			for _, i := range t.Indexes {
				fmt.Fprintf(&b, "%s;\n", i)
			}
		}
	}
	return b.String()
}

const preamble = `# Data dictionary

Generated from ` + "`migrations/`" + ` by ` + "`go generate ./internal/store`" + `; do not edit.

Views are for people and scripts: their names and columns stay. Tables may change with any version.

- Times, in columns named ` + "`…_at`" + `, are RFC 3339 text in UTC with six fractional digits, so that text order is time order; ` + "`at`" + ` and ` + "`since`" + ` are such times too.
- Durations, in columns named ` + "`…_ns`" + `, are integer nanoseconds.
- Truth values are 0 and 1.
- Every row about a container has ` + "`namespace`, `pod`, `container` and `pod_uid`" + `, which join it to any other.
`

// Markdown is the text of dictionary.md.
func Markdown(tables []Table) string {
	var b strings.Builder
	b.WriteString(preamble)
	for _, views := range []bool{true, false} {
		if views {
			b.WriteString("\n# Views\n")
		} else {
			b.WriteString("\n# Tables\n")
		}
		for _, t := range tables {
			if t.View == views {
				describe(&b, t)
			}
		}
	}
	return b.String()
}

func describe(b *strings.Builder, t Table) {
	fmt.Fprintf(b, "\n## %s\n\n%s\n\n", t.Name, t.Comment)
	b.WriteString("| column | type | meaning |\n|---|---|---|\n")
	for _, c := range t.Columns {
		kind := strings.ToLower(c.Type)
		if c.Key > 0 {
			kind += ", key"
		} else if !t.View && !c.NotNull {
			kind += ", or NULL"
		}
		fmt.Fprintf(b, "| `%s` | %s | %s |\n", c.Name, kind, strings.ReplaceAll(c.Comment, "|", `\|`))
	}
}
