package config

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"
	"k8s.io/apimachinery/pkg/util/validation"
)

func checkPath(path string) error {
	if !filepath.IsAbs(path) {
		return fmt.Errorf("%q: give an absolute path", path)
	}
	return nil
}

func checkOptionalPath(path string) error {
	if path == "" {
		return nil
	}
	return checkPath(path)
}

// maxSocketPath is what fits into a Unix socket address on Linux.
const maxSocketPath = 107

func checkSocket(path string) error {
	if len(path) > maxSocketPath {
		return fmt.Errorf("%q: a socket's path has %d bytes at most; give a shorter one", path, maxSocketPath)
	}
	return checkPath(path)
}

func checkURL(value string) error {
	if value == "" {
		return nil
	}
	parsed, err := url.Parse(value)
	if err != nil || parsed.Host == "" || parsed.Scheme != "http" && parsed.Scheme != "https" {
		return errors.New("it is no URL with http:// or https:// and a host (not repeated here: it may hold a password): give one such as https://example.com/pods.yaml")
	}
	return nil
}

// checkPodmanURL takes local sockets only: manifests name paths of this machine.
func checkPodmanURL(value string) error {
	if value == "" {
		return nil
	}
	path, local := strings.CutPrefix(value, "unix://")
	if !local || !filepath.IsAbs(path) {
		return fmt.Errorf("%q: give a local socket as in unix:///run/podman/podman.sock", value)
	}
	return checkSocket(path)
}

// checkHeader does not repeat values, which may be secret.
func checkHeader(c Config) error {
	if len(c.ManifestURLHeader) > 0 && c.ManifestURL == "" {
		return errors.New("there is no --manifest-url to send headers to")
	}
	for name, values := range c.ManifestURLHeader {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("%q is no HTTP header name; give NAME:VALUE", name)
		}
		for _, value := range values {
			if !httpguts.ValidHeaderFieldValue(value) {
				return fmt.Errorf("the value of %s has characters that HTTP doesn't allow", http.CanonicalHeaderKey(name))
			}
		}
	}
	return nil
}

// leastFrequency keeps a slip of the unit from loading the machine.
const leastFrequency = 100 * time.Millisecond

func checkFrequency(d time.Duration) error {
	if d < leastFrequency {
		return fmt.Errorf("%s: give %s or more", d, leastFrequency)
	}
	return nil
}

func checkPositive(d time.Duration) error {
	if d <= 0 {
		return fmt.Errorf("%s: give more than 0s", d)
	}
	return nil
}

func checkNodeName(name string) error {
	if name == "" {
		return nil
	}
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return fmt.Errorf("%q: %s", name, strings.Join(problems, "; "))
	}
	return nil
}

// groupID is the number of a group given by name or number, −1 for none.
func groupID(group string) (int, error) {
	if group == "" {
		return -1, nil
	}
	if id, err := strconv.ParseUint(group, 10, 31); err == nil {
		return int(id), nil
	}
	found, err := user.LookupGroup(group)
	if err != nil {
		return 0, fmt.Errorf("%q: there is no such group; make it with `groupadd --system %s`, or give another one", group, group)
	}
	return strconv.Atoi(found.Gid)
}
