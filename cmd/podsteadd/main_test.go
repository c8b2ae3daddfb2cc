package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestStartSaysWhatIsAskedFor(t *testing.T) {
	tests := []struct {
		args           []string
		status         int
		stdout, stderr string
	}{
		{[]string{"--help"}, exitOK, "Usage:\n  podsteadd [flags]", ""},
		{[]string{"--version"}, exitOK, "podsteadd v", ""},
		{[]string{"--sync-frequency=0", "--root-dir=x"}, exitConfig, "", "the configuration is wrong:\n--sync-frequency: "},
	}
	for _, test := range tests {
		var stdout, stderr bytes.Buffer
		if got := start(test.args, &stdout, &stderr); got != test.status {
			t.Errorf("%v: status %d, want %d", test.args, got, test.status)
		}
		if !strings.Contains(stdout.String(), test.stdout) || !strings.Contains(stderr.String(), test.stderr) {
			t.Errorf("%v: stdout %q, stderr %q", test.args, &stdout, &stderr)
		}
		if (test.stdout == "") != (stdout.Len() == 0) || (test.stderr == "") != (stderr.Len() == 0) {
			t.Errorf("%v: stdout %q, stderr %q", test.args, &stdout, &stderr)
		}
	}
}
