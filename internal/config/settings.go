package config

import (
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"podstead.io/podstead/internal/wire"
)

// setting is one thing that can be configured.
type setting struct {
	flag      string
	shorthand string
	// environment variable, if any.
	variable string
	// fields of KubeletConfiguration that set it, if any.
	fields   []string
	argument string // what the value is called in the help text
	usage    string
	inFile   string // usage of the field; empty: the same
	value    func(*Config) pflag.Value
	check    func(Config) error
}

// section groups settings in the help text and the manual.
type section struct {
	title    string
	settings []setting
}

// sections is the one list of settings: flags, file fields, checks, help text and
// web/docs/configuration.md are made from it.
var sections = []section{
	{"Manifests", []setting{
		{
			flag: "pod-manifest-path", fields: []string{"staticPodPath"},
			argument: "DIRECTORY",
			usage:    "directory of pod manifests, one or several to a file, in YAML or JSON; empty: none",
			value:    func(c *Config) pflag.Value { return (*path)(&c.PodManifestPath) },
			check:    func(c Config) error { return checkOptionalPath(c.PodManifestPath) },
		},
		{
			flag: "manifest-url", fields: []string{"staticPodURL"},
			argument: "URL",
			usage:    "URL to poll for pod manifests; empty: none",
			value:    func(c *Config) pflag.Value { return (*text)(&c.ManifestURL) },
			check:    func(c Config) error { return checkURL(c.ManifestURL) },
		},
		{
			flag: "manifest-url-header", fields: []string{"staticPodURLHeader"},
			argument: "NAME:VALUE",
			usage:    "HTTP header to send to --manifest-url; several are separated by commas, or the flag is given several times",
			inFile:   "HTTP headers to send to staticPodURL: a name, and a list of values",
			value: func(c *Config) pflag.Value {
				return cliflag.NewColonSeparatedMultimapStringString((*map[string][]string)(&c.ManifestURLHeader))
			},
			check: func(c Config) error { return checkHeader(c) },
		},
		{
			flag: "file-check-frequency", fields: []string{"fileCheckFrequency"},
			argument: "DURATION",
			usage:    "time between full readings of --pod-manifest-path; a change is noticed at once without them",
			value:    func(c *Config) pflag.Value { return (*duration)(&c.FileCheckFrequency) },
			check:    func(c Config) error { return checkFrequency(c.FileCheckFrequency) },
		},
		{
			flag: "http-check-frequency", fields: []string{"httpCheckFrequency"},
			argument: "DURATION",
			usage:    "time between polls of --manifest-url",
			value:    func(c *Config) pflag.Value { return (*duration)(&c.HTTPCheckFrequency) },
			check:    func(c Config) error { return checkFrequency(c.HTTPCheckFrequency) },
		},
		{
			flag: "sync-frequency", fields: []string{"syncFrequency"},
			argument: "DURATION",
			usage:    "time after which a pod is looked at again even if nothing was heard of it",
			value:    func(c *Config) pflag.Value { return (*duration)(&c.SyncFrequency) },
			check:    func(c Config) error { return checkFrequency(c.SyncFrequency) },
		},
	}},
	{"Podman and images", []setting{
		{
			flag:     "podman-url",
			argument: "URL",
			usage:    "URL of Podman's socket, as in unix:///run/podman/podman.sock; empty: the system's or the user's if one answers, and else a service that the agent starts and keeps running",
			value:    func(c *Config) pflag.Value { return (*text)(&c.PodmanURL) },
			check:    func(c Config) error { return checkPodmanURL(c.PodmanURL) },
		},
		{
			flag:     "image-registry-timeout",
			argument: "DURATION",
			usage:    "time that a registry may take to say what an image name stands for; after it a pod with imagePullPolicy Always starts with the image that is present",
			value:    func(c *Config) pflag.Value { return (*duration)(&c.ImageRegistryTimeout) },
			check:    func(c Config) error { return checkPositive(c.ImageRegistryTimeout) },
		},
		{
			flag: "max-parallel-image-pulls", fields: []string{"maxParallelImagePulls", "serializeImagePulls"},
			argument: "NUMBER",
			usage:    "number of images to pull at a time",
			value:    func(c *Config) pflag.Value { return (*number)(&c.MaxParallelImagePulls) },
			check: func(c Config) error {
				if c.MaxParallelImagePulls < 1 {
					return fmt.Errorf("%d: give 1 or more", c.MaxParallelImagePulls)
				}
				return nil
			},
		},
	}},
	{"Agent", []setting{
		{
			flag:     "root-dir",
			argument: "DIRECTORY",
			usage:    "directory for the database and the pods' volumes; one agent at a time may use it",
			value:    func(c *Config) pflag.Value { return (*path)(&c.RootDir) },
			check:    func(c Config) error { return checkPath(c.RootDir) },
		},
		{
			flag: "socket", variable: wire.SocketVariable,
			argument: "PATH",
			usage:    "path of the Unix socket to listen on; its directory also holds what need not survive a reboot",
			value:    func(c *Config) pflag.Value { return (*path)(&c.Socket) },
			check:    func(c Config) error { return checkSocket(c.Socket) },
		},
		{
			flag:     "socket-group",
			argument: "GROUP",
			usage:    "group, by name or number, whose members may use the socket, which makes them as good as root; empty: root only",
			value:    func(c *Config) pflag.Value { return (*text)(&c.SocketGroup) },
			check:    func(c Config) error { _, err := groupID(c.SocketGroup); return err },
		},
		{
			flag:     "hostname-override",
			argument: "NAME",
			usage:    "name of this node; empty: the host name in lower case",
			value:    func(c *Config) pflag.Value { return (*text)(&c.HostnameOverride) },
			check:    func(c Config) error { return checkNodeName(c.HostnameOverride) },
		},
	}},
	{"Log", []setting{
		{
			flag:     "log-level",
			argument: "LEVEL",
			usage:    "least level to log: debug, info, warn or error",
			value:    func(c *Config) pflag.Value { return (*level)(&c.LogLevel) },
		},
		{
			flag: "v", shorthand: "v", fields: []string{"logging.verbosity"},
			argument: "NUMBER",
			usage:    "kubelet's way to set --log-level: 4 and more is debug, less is info",
			value:    func(c *Config) pflag.Value { return (*verbosity)(&c.LogLevel) },
		},
		{
			flag: "log-format", fields: []string{"logging.format"},
			argument: "FORMAT",
			usage:    "format of the log: text or json",
			value:    func(c *Config) pflag.Value { return (*text)(&c.LogFormat) },
			check: func(c Config) error {
				if c.LogFormat != LogText && c.LogFormat != LogJSON {
					return fmt.Errorf("%q: give %s or %s", c.LogFormat, LogText, LogJSON)
				}
				return nil
			},
		},
	}},
}

// settings lists every setting of every section.
func settings() []setting {
	var all []setting
	for _, s := range sections {
		all = append(all, s.settings...)
	}
	return all
}

// argument gives a flag's value its name in the help text.
type argument struct {
	pflag.Value
	name string
}

func (a argument) Type() string { return a.name }

// The flag values. Their errors say what would be right.

type text string

func (v *text) Set(s string) error { *v = text(s); return nil }
func (v *text) String() string     { return string(*v) }
func (v *text) Type() string       { return "string" }

// path is a text that a trailing slash makes no difference to.
type path string

func (v *path) Set(s string) error {
	*v = path(s)
	if len(s) > 1 {
		*v = path(strings.TrimRight(s, "/"))
	}
	return nil
}
func (v *path) String() string { return string(*v) }
func (v *path) Type() string   { return "string" }

type duration time.Duration

func (v *duration) Set(s string) error {
	d, err := time.ParseDuration(s)
	if err != nil {
		return fmt.Errorf("%q: give a duration with its unit, such as 20s or 1m30s", s)
	}
	*v = duration(d)
	return nil
}
func (v *duration) String() string { return shortDuration(time.Duration(*v)) }
func (v *duration) Type() string   { return "duration" }

// shortDuration writes 1m0s as 1m.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

type number int

func (v *number) Set(s string) error {
	n, err := strconv.Atoi(s)
	if err != nil {
		return fmt.Errorf("%q: give a whole number", s)
	}
	*v = number(n)
	return nil
}
func (v *number) String() string { return strconv.Itoa(int(*v)) }
func (v *number) Type() string   { return "int" }

type level slog.Level

func (v *level) Set(s string) error {
	for _, known := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if strings.EqualFold(s, known.String()) {
			*v = level(known)
			return nil
		}
	}
	return fmt.Errorf("%q: give debug, info, warn or error", s)
}
func (v *level) String() string { return strings.ToLower(slog.Level(*v).String()) }
func (v *level) Type() string   { return "string" }

// debugVerbosity is the klog verbosity that Kubernetes calls debug level.
const debugVerbosity = 4

type verbosity slog.Level

func (v *verbosity) Set(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return fmt.Errorf("%q: give a whole number from 0", s)
	}
	*v = verbosity(slog.LevelInfo)
	if n >= debugVerbosity {
		*v = verbosity(slog.LevelDebug)
	}
	return nil
}
func (v *verbosity) String() string { return "" }
func (v *verbosity) Type() string   { return "int" }

// canonical gives the headers the spelling that net/http sends.
func canonical(header map[string][]string) http.Header {
	h := http.Header{}
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			h.Add(name, value)
		}
	}
	return h
}
