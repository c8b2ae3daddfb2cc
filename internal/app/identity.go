package app

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/google/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
)

// host says what the machine calls itself; tests replace its parts.
type host struct {
	hostname  func() (string, error)
	machineID string // file, see machine-id(5)
	bootID    string // file, see random(4)
}

func thisHost() host {
	return host{hostname: os.Hostname, machineID: "/etc/machine-id", bootID: "/proc/sys/kernel/random/boot_id"}
}

// nodeName is the override or the host's name in lower case, as kubelet has it.
// The resolver is never asked: it may be what the machine waits for.
func (h host) nodeName(override string) (string, error) {
	if override != "" {
		return override, nil
	}
	name, err := h.hostname()
	if err != nil {
		return "", fmt.Errorf("read the host name: %w; give one with --hostname-override", err)
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return "", fmt.Errorf("the host name %q can't name a node: %s; give one with --hostname-override", name, strings.Join(problems, "; "))
	}
	return name, nil
}

// bootIdentity changes with every start of the machine.
func (h host) bootIdentity() (string, error) {
	content, err := os.ReadFile(h.bootID)
	if err != nil {
		return "", fmt.Errorf("tell whether the machine was restarted: %w", err)
	}
	return string(bytes.TrimSpace(content)), nil
}

// nodeNamespace keeps node identities apart from other UUIDs made of the same
// machine ID.
var nodeNamespace = uuid.MustParse("6f2b4bb4-93f5-4d0e-a3c9-7d0f4a3f0f5e")

// nodeIdentity is the identity of a node that has no database yet. It follows
// from the machine and the root directory, so that an agent which lost its
// database still knows its containers by their labels, and two agents on one
// machine don't take each other's. A machine without an ID gets a random one.
func (h host) nodeIdentity(rootDir string) (string, error) {
	machine, err := os.ReadFile(h.machineID)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("read the machine's ID: %w", err)
	}
	if machine = bytes.TrimSpace(machine); !isMachineID(machine) {
		return uuid.NewString(), nil
	}
	return uuid.NewSHA1(nodeNamespace, fmt.Appendf(nil, "%s\x00%s", machine, rootDir)).String(), nil
}

// isMachineID tells an ID from what stands in the file before the first boot:
// nothing, or "uninitialized".
func isMachineID(content []byte) bool {
	_, err := uuid.ParseBytes(content)
	return err == nil
}
