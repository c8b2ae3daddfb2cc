package podmanhost

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
)

// environment is what makes a podman command, or an agent that starts a service of
// its own, use the storage of the host in dir.
func environment(dir string) []string {
	return []string{
		"CONTAINERS_CONF=" + filepath.Join(dir, "containers.conf"),
		"CONTAINERS_STORAGE_CONF=" + filepath.Join(dir, "storage.conf"),
		"CONTAINERS_REGISTRIES_CONF=" + filepath.Join(dir, "registries.conf"),
	}
}

// configure writes Podman's configuration into a new host's directory. Limits that
// root in a small VM or LXC may not raise are lowered, and runc and cgroupfs work
// on cgroup v1 as well as v2. Locks are files because the usual shared-memory
// segment is one for the whole machine: two hosts would free, or wait for, each
// other's locks.
func configure(s slot, registry string) error {
	dir := s.dir()
	network := networkName(s)
	definition, err := networkDefinition(s, network)
	if err != nil {
		return err
	}
	files := map[string]string{
		"containers.conf": fmt.Sprintf(`[containers]
default_ulimits = ["nofile=16384:16384", "nproc=16384:16384"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
static_dir = %[1]q
tmp_dir = %[2]q
volume_path = %[3]q
[network]
network_backend = "netavark"
network_config_dir = %[4]q
default_network = %[5]q
default_subnet = "%[6]s"
`, filepath.Join(dir, "root/libpod"), filepath.Join(dir, "tmp"), filepath.Join(dir, "root/volumes"),
			filepath.Join(dir, "net"), network, s.subnet()),
		"storage.conf": fmt.Sprintf(`[storage]
driver = "overlay"
graphroot = %q
runroot = %q
`, filepath.Join(dir, "root"), filepath.Join(dir, "run")),
		"registries.conf": fmt.Sprintf(`unqualified-search-registries = ["docker.io"]
[[registry]]
prefix = "docker.io"
location = "127.0.0.1:1"
insecure = true
[[registry]]
location = %q
insecure = true
`, registry),
		filepath.Join("net", network+".json"): definition,
	}
	if err := os.Mkdir(filepath.Join(dir, "net"), 0o700); err != nil {
		return err
	}
	for name, content := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// networkName is new for every host: netavark names its firewall chains after the
// network, and Podman notes the addresses that it gave out under that name in one
// database for all storages, where those of a killed container stay.
func networkName(s slot) string {
	return s.bridge() + "-" + strings.ToLower(rand.Text())
}

// networkDefinition is what `podman network create` would write for the host's
// default network.
func networkDefinition(s slot, name string) (string, error) {
	id := sha256.Sum256([]byte(name))
	definition, err := json.MarshalIndent(map[string]any{
		"name":              name,
		"id":                hex.EncodeToString(id[:]),
		"driver":            "bridge",
		"network_interface": s.bridge(),
		"created":           "2024-01-01T00:00:00Z",
		"subnets": []map[string]any{{
			"subnet":  s.subnet().String(),
			"gateway": s.subnet().Addr().Next().String(),
		}},
		"ipv6_enabled": false,
		"internal":     false,
		"dns_enabled":  false,
		"ipam_options": map[string]string{"driver": "host-local"},
	}, "", "  ")
	return string(definition), err
}

// freeAddress is a loopback address on which nothing listens.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	address := listener.Addr().String()
	return address, listener.Close()
}
