// Package config turns the agent's command line, environment and KubeletConfiguration
// file into one typed, validated Config.
//
// The names are kubelet's wherever they mean the same. Flags win over the file,
// the file over the environment, and that over the defaults, which stand in
// Default and nowhere else. Everything wrong is reported at once, each error
// naming the flag or the file and field, and what would be right.
//
// The package owns no goroutine. It reads the file that --config names and looks
// up the socket's group; nothing else is touched.
package config

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"podstead.io/podstead/internal/wire"
)

// The formats of the log.
const (
	LogText = "text"
	LogJSON = "json"
)

// Config is everything that the agent can be told.
type Config struct {
	// RootDir holds the database and the pods' volumes.
	RootDir string
	// Socket is where the agent listens.
	Socket string
	// SocketGroup is the name or number of the group that may use Socket, and
	// SocketGID its number; empty and −1 when only the agent's own user may.
	SocketGroup string
	SocketGID   int
	// PodmanURL is Podman's socket as unix:///path; empty: find one, or start one.
	PodmanURL string

	// PodManifestPath is the directory of manifests; empty: none.
	PodManifestPath string
	// ManifestURL is polled for manifests; empty: none.
	ManifestURL string
	// ManifestURLHeader is sent with each poll. It may hold secrets.
	ManifestURLHeader  http.Header
	FileCheckFrequency time.Duration
	HTTPCheckFrequency time.Duration
	// SyncFrequency is the longest time between two looks at a pod.
	SyncFrequency time.Duration

	// HostnameOverride is the node's name; empty: the host's name.
	HostnameOverride string

	// ImageRegistryTimeout is how long a registry may take to say what an image
	// name stands for.
	ImageRegistryTimeout time.Duration
	// MaxParallelImagePulls bounds pulls at a time.
	MaxParallelImagePulls int

	LogLevel  slog.Level
	LogFormat string

	// Warnings name what was understood and has no effect.
	Warnings []string
}

// Default is the configuration of an agent that is told nothing.
func Default() Config {
	return Config{
		RootDir:               "/var/lib/podstead",
		Socket:                wire.DefaultSocket,
		SocketGID:             -1,
		PodManifestPath:       "/etc/podstead/manifests",
		ManifestURLHeader:     http.Header{},
		FileCheckFrequency:    20 * time.Second,
		HTTPCheckFrequency:    20 * time.Second,
		SyncFrequency:         time.Minute,
		ImageRegistryTimeout:  5 * time.Second,
		MaxParallelImagePulls: 4,
		LogLevel:              slog.LevelInfo,
		LogFormat:             LogText,
	}
}

// RuntimeDir holds what does not survive a reboot: the agent's socket, and that
// of a Podman service which the agent starts itself.
func (c Config) RuntimeDir() string { return filepath.Dir(c.Socket) }
