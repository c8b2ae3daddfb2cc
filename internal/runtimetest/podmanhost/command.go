package podmanhost

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

// commandTimeout bounds every command that is run for a host.
const commandTimeout = 3 * time.Minute

// output runs a command with the variables added to the environment and returns
// its standard output; an error holds what it said on standard error.
func output(env []string, name string, args ...string) (string, error) {
	return outputWithInput("", env, name, args...)
}

func outputWithInput(input string, env []string, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdin = strings.NewReader(input)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A container that was started keeps the pipes open after podman has exited.
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return stdout.String(), nil
}

func run(env []string, name string, args ...string) error {
	_, err := output(env, name, args...)
	return err
}
