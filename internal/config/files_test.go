package config

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
)

// setting out of a comment: a # with no blank behind it.
var commented = regexp.MustCompile(`(?m)^#(\S)`)

func TestFileIsTheDefault(t *testing.T) {
	for name, content := range map[string]string{
		"as it comes":       File(),
		"with all settings": commented.ReplaceAllString(File(), "$1"),
	} {
		got, err := Parse([]string{"--config", writeFile(t, content)}, noEnv)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if !reflect.DeepEqual(got, Default()) {
			t.Errorf("%s:\ngot  %+v\nwant %+v", name, got, Default())
		}
	}
	for field := range takers {
		name := strings.TrimPrefix(field, "logging.")
		if !regexp.MustCompile(`(?m)^#.*\b` + name + `: `).MatchString(File()) {
			t.Errorf("%s is missing", field)
		}
	}
}

func TestFlagsFileIsTheDefault(t *testing.T) {
	file := FlagsFile("root")
	match := regexp.MustCompile(`(?m)^#PODSTEADD_FLAGS="(.*)"$`).FindStringSubmatch(file)
	if match == nil {
		t.Fatalf("no flags in\n%s", file)
	}
	got, err := Parse(strings.Fields(match[1]), noEnv)
	want := with(func(c *Config) { c.SocketGroup, c.SocketGID = "root", 0 })
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v, %v\nwant %+v", got, err, want)
	}
	for line := range strings.Lines(file) {
		if !strings.HasPrefix(line, "#") && strings.TrimSpace(line) != "" {
			t.Errorf("not commented out: %s", line)
		}
	}
}

// Every setting can be given to the service, in one of its two files.
func TestFilesHaveEverySetting(t *testing.T) {
	for _, s := range settings() {
		if len(s.fields) == 0 && !strings.Contains(FlagsFile(""), "--"+s.flag+"=") {
			t.Errorf("--%s is missing", s.flag)
		}
	}
	for line := range strings.Lines(File() + FlagsFile("")) {
		if len(line) > commentWidth+1 && strings.HasPrefix(line, "# ") {
			t.Errorf("too long: %s", line)
		}
	}
	if strings.Contains(File(), "--") {
		t.Errorf("the file speaks of flags:\n%s", File())
	}
}

func TestManualNamesEveryFlag(t *testing.T) {
	for _, s := range settings() {
		if !strings.Contains(Manual(), "**--"+s.flag+"**=*"+s.argument+"*") {
			t.Errorf("the manual lacks --%s", s.flag)
		}
	}
}

// The unit and the package's other files name paths that are the agent's defaults.
func TestPackagedPaths(t *testing.T) {
	for file, want := range map[string][]string{
		"podsteadd.service": {"--socket-group=podstead", "/etc/podstead/config.yaml", "/etc/podstead/podsteadd.env", "$PODSTEADD_FLAGS", "RestartPreventExitStatus=78\n"},
		"podstead.tmpfiles": {"d " + Default().RuntimeDir() + " ", "d " + Default().RootDir + " "},
		"postrm":            {"state=" + Default().RootDir + "\n", Default().RuntimeDir()},
	} {
		content, err := os.ReadFile(filepath.Join("../../scripts/packaging", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range want {
			if !strings.Contains(string(content), text) {
				t.Errorf("%s does not have %q", file, text)
			}
		}
	}
}
