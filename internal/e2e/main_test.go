package e2e

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binaries are the agent and the client that all tests run.
var binaries struct{ agent, client string }

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "podstead-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := build(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binaries.agent = filepath.Join(dir, "podsteadd")
	binaries.client = filepath.Join(dir, "podstead")
	status := m.Run()
	if err := writeReport(*report); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return status
}

// build builds both as scripts/build does. scripts/env has the tags.
func build(dir string) error {
	cmd := exec.Command("bash", "-c", `source scripts/env && CGO_ENABLED=0 go build -o "$1" ./cmd/podsteadd ./cmd/podstead`, "build", dir)
	cmd.Dir = "../.."
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build the binaries: %w\n%s", err, out)
	}
	return nil
}
