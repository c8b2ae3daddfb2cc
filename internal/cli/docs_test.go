package cli_test

import (
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"

	"podstead.io/podstead/web"
)

var (
	// commandLine is a podstead command in a block or in backquotes.
	commandLine = regexp.MustCompile("(?m)(?:^(?:\\$ )?|`)(podstead [^`\n]+)")
	link        = regexp.MustCompile(`\]\(([^):#]+)\)`)
)

// Every command that the documentation shows is one that there is, with its
// flags, and every link leads somewhere.
func TestDocumentedCommandsExist(t *testing.T) {
	seen := 0
	err := fs.WalkDir(web.Files, "docs", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(web.Files, path)
		if err != nil {
			return err
		}
		for _, m := range commandLine.FindAllStringSubmatch(string(text), -1) {
			for _, line := range alternatives(m[1]) {
				seen++
				args := append(words(line)[1:], "--help")
				if o := run(t.Context(), "", nil, args...); o.code != 0 || !strings.Contains(o.stdout, "podstead "+args[0]) && args[0] != "--help" {
					t.Errorf("%s: %s: %s%s", path, line, o.stdout, o.stderr)
				}
			}
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target := path[:strings.LastIndex(path, "/")+1] + m[1]
			if !fs.ValidPath(target) { // it leaves the embedded files
				continue
			}
			if _, err := fs.Stat(web.Files, target); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Errorf("only %d commands were found", seen)
	}
}

// The diagrams of the documentation are the generated ones.
func TestDocumentedStates(t *testing.T) {
	text, err := fs.ReadFile(web.Files, "docs/lifecycle.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, machine := range []string{"pod", "container"} {
		diagram, err := os.ReadFile("../../schema/states-" + machine + ".mmd")
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), "```mermaid\n"+strings.TrimSpace(string(diagram))+"\n```\n") {
			t.Errorf("lifecycle.md does not have the diagram of schema/states-%s.mmd", machine)
		}
	}
}

// alternatives takes apart "podstead get a|b".
func alternatives(line string) []string {
	line = strings.ReplaceAll(line, `\|`, "|")
	out := []string{""}
	for i, word := range words(line) {
		var next []string
		choices := []string{word}
		if plainChoice.MatchString(word) {
			choices = strings.Split(word, "|")
		}
		for _, before := range out {
			for _, c := range choices {
				if i > 0 {
					c = before + " " + c
				}
				next = append(next, c)
			}
		}
		out = next
	}
	return out
}

var plainChoice = regexp.MustCompile(`^[a-z]+(\|[a-z]+)+$`)

// words splits a line as a shell does, up to a pipe or redirection.
func words(line string) []string {
	var out []string
	quoted := false
	start := true
	for _, r := range line {
		switch {
		case r == '"' || r == '\'':
			quoted = !quoted
			continue
		case !quoted && r == ' ':
			start = true
			continue
		case !quoted && r == '>':
			return out
		}
		if start {
			out = append(out, "")
			start = false
		}
		out[len(out)-1] += string(r)
	}
	return out
}
