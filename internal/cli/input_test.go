package cli_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// What never comes to an end must not keep the client from ending.
func TestInputThatNeverEndsIsGivenUp(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo.yaml")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"apply", "-f", fifo},
		{"delete", "-f", fifo},
		{"sql", "-f", fifo},
	} {
		t.Run(args[0], func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			out := run(ctx, "", nil, append(args, "--socket", filepath.Join(dir, "none"))...)
			// Lets the abandoned reader go, so that nothing is left of it.
			w, err := os.OpenFile(fifo, os.O_WRONLY, 0)
			if err != nil {
				t.Fatal(err)
			}
			w.Close()
			if out.code == 0 || !strings.Contains(out.stderr, fifo) {
				t.Errorf("code %d, %q", out.code, out.stderr)
			}
		})
	}
}

func TestInputIsBounded(t *testing.T) {
	a := newAgent(t)
	for _, args := range [][]string{{"apply", "-f", "/dev/zero"}, {"sql", "-f", "/dev/zero"}} {
		if out := a.run(args...); out.code == 0 || !strings.Contains(out.stderr, "is larger than") {
			t.Errorf("%v: code %d, %q; want the agent's limit", args, out.code, out.stderr)
		}
	}
}
