// Command hostctl makes and removes a private Podman for the scripts: the same
// hosts as tests use, kept between commands. It starts no goroutine of its own.
package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"podstead.io/podstead/internal/runtimetest/podmanhost"
)

const usage = `usage:
  podman-private up [OWNER]  start a private Podman and print its settings for eval;
                             it is removed some time after the process OWNER is gone
  podman-private keep DIR    let it outlive its owner
  podman-private down DIR    end and remove what up printed as PODMAN_PRIVATE_DIR
  podman-private reap        remove those whose owner is gone`

func main() {
	if err := dispatch(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func dispatch(args []string) error {
	switch {
	case len(args) == 1 && args[0] == "up":
		return up(0)
	case len(args) == 2 && args[0] == "up":
		owner, err := strconv.Atoi(args[1])
		if err != nil {
			return fmt.Errorf("OWNER is a process number: %w", err)
		}
		return up(owner)
	case len(args) == 2 && args[0] == "keep":
		return with(args[1], (*podmanhost.Service).Keep)
	case len(args) == 2 && args[0] == "down":
		return with(args[1], (*podmanhost.Service).Remove)
	case len(args) == 1 && args[0] == "reap":
		return podmanhost.Reap()
	}
	return errors.New(usage)
}

func with(dir string, do func(*podmanhost.Service) error) error {
	service, err := podmanhost.Open(dir)
	if err != nil {
		return err
	}
	return do(service)
}

// up prints nothing that needs quoting: the paths are the host's own.
func up(owner int) error {
	service, err := podmanhost.Create(owner)
	if err != nil {
		return err
	}
	fmt.Printf("export PODMAN_PRIVATE_DIR=%s\n", service.Dir)
	fmt.Printf("export PODMAN_PRIVATE_URL=%s\n", service.URL)
	for _, setting := range service.Env {
		fmt.Printf("export %s\n", setting)
	}
	return nil
}
