package doctor

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/BurntSushi/toml"
	"golang.org/x/sys/unix"
)

func process(getenv func(string) string) Process {
	p := Process{Root: os.Geteuid() == 0, SysResource: hasCapability(unix.CAP_SYS_RESOURCE)}
	p.MaxFiles = hardLimit(unix.RLIMIT_NOFILE)
	p.MaxTasks = hardLimit(unix.RLIMIT_NPROC)
	var err error
	if p.Ulimits, err = defaultUlimits(configFiles(getenv)); err != nil {
		p.UlimitsErr = err.Error()
	}
	return p
}

// hardLimit is the most that a limit can be raised to.
func hardLimit(resource int) uint64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(resource, &l); err != nil {
		return 0
	}
	return l.Max
}

func hasCapability(n int) bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return false
	}
	return data[n/32].Effective&(1<<(n%32)) != 0
}

// configFiles are those of containers.conf(5) that apply, later ones over
// earlier ones.
func configFiles(getenv func(string) string) []string {
	if only := getenv("CONTAINERS_CONF"); only != "" {
		return []string{only}
	}
	files := []string{"/usr/share/containers/containers.conf", "/etc/containers/containers.conf"}
	more, err := filepath.Glob("/etc/containers/containers.conf.d/*.conf")
	if err != nil {
		panic(err) // the pattern is right
	}
	slices.Sort(more)
	return append(files, more...)
}

// defaultUlimits reads default_ulimits, such as "nofile=1024:2048"; the last file
// that has it wins.
func defaultUlimits(files []string) (map[string]Ulimit, error) {
	limits := map[string]Ulimit{}
	for _, file := range files {
		var conf struct {
			Containers struct {
				DefaultUlimits []string `toml:"default_ulimits"`
			} `toml:"containers"`
		}
		_, err := toml.DecodeFile(file, &conf)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		found := map[string]Ulimit{}
		for _, text := range conf.Containers.DefaultUlimits {
			name, l, err := parseUlimit(text)
			if err != nil {
				return nil, fmt.Errorf("%s: default_ulimits %q: %w", file, text, err)
			}
			found[name] = l
		}
		if len(found) > 0 {
			clear(limits)
			maps.Copy(limits, found)
		}
	}
	return limits, nil
}

func parseUlimit(text string) (string, Ulimit, error) {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return "", Ulimit{}, errors.New("it is not NAME=SOFT:HARD")
	}
	soft, hard, ok := strings.Cut(value, ":")
	if !ok {
		hard = soft
	}
	var l Ulimit
	var err error
	if l.Soft, err = parseLimit(soft); err != nil {
		return "", l, err
	}
	l.Hard, err = parseLimit(hard)
	return name, l, err
}

// parseLimit reads a limit, of which -1 is no limit.
func parseLimit(text string) (uint64, error) {
	if text == "-1" {
		return unix.RLIM_INFINITY, nil
	}
	return strconv.ParseUint(text, 10, 64)
}
