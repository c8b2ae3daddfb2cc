package podmanhost

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/crypto/bcrypt"
)

// StartRegistry runs an empty image registry on the host's Registry address until
// the test ends, for pulls that are answered: push with
// h.Podman("push", "busybox", h.Registry+"/team/busybox:1"). With a user it asks
// for that user and password.
func (h *Host) StartRegistry(user, password string) {
	h.tb.Helper()
	config, err := h.registryConfig(user, password)
	if err != nil {
		h.tb.Fatalf("configure a registry: %v", err)
	}
	log, err := os.Create(filepath.Join(h.Dir, "registry.log"))
	if err != nil {
		h.tb.Fatalf("registry: %v", err)
	}
	defer func() { h.check(log.Close()) }()
	cmd := exec.Command("docker-registry", "serve", config)
	cmd.Env = append(os.Environ(), h.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		h.tb.Fatalf("start a registry (scripts/deps installs it): %v", err)
	}
	h.tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	err = until(startTimeout, "the registry to listen on "+h.Registry, func() bool {
		connection, err := net.DialTimeout("tcp", h.Registry, time.Second)
		return err == nil && connection.Close() == nil
	})
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		h.tb.Fatalf("%v; it said: %s", err, said)
	}
}

func (h *Host) registryConfig(user, password string) (path string, err error) {
	config := fmt.Sprintf(`version: 0.1
log: {level: warn}
storage:
  filesystem: {rootdirectory: %s}
http: {addr: %s}
`, filepath.Join(h.Dir, "registry-data"), h.Registry)
	if user != "" {
		hash, err := bcrypt.GenerateFromPassword([]byte(password), bcrypt.MinCost)
		if err != nil {
			return "", err
		}
		users := filepath.Join(h.Dir, "registry-users")
		if err := os.WriteFile(users, fmt.Appendf(nil, "%s:%s\n", user, hash), 0o600); err != nil {
			return "", err
		}
		config += fmt.Sprintf("auth:\n  htpasswd: {realm: test, path: %s}\n", users)
	}
	path = filepath.Join(h.Dir, "registry.yml")
	return path, os.WriteFile(path, []byte(config), 0o600)
}
