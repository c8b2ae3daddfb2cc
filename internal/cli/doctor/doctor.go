// Package doctor says what is wrong with a machine that is to run pods, and how
// to mend it. Gather collects the facts; Examine judges them, purely.
//
// The agent may be down: whatever it would say is looked up here. Podman is asked
// through its own socket or command rather than through the agent, so that there
// is one way of asking; a running agent only says where that socket is. The
// package owns no goroutine.
package doctor

import (
	"time"

	"podstead.io/podstead/internal/wire"
)

// Level is how bad a finding is.
type Level string

// The levels.
const (
	OK   Level = "OK"
	Warn Level = "WARN" // pods run, but something will be missed sooner or later
	Fail Level = "FAIL" // pods can't run, or their agent can't
)

// Finding is what one check came to.
type Finding struct {
	Check  string `json:"check"`
	Level  Level  `json:"level"`
	Found  string `json:"found"`
	Remedy string `json:"remedy,omitempty"` // empty when OK
}

// Facts are everything that is judged. A text named …Err says why the facts
// beside it are missing.
type Facts struct {
	Now     time.Time
	Systemd bool // it is the machine's init
	// Hybrid is the controllers of a cgroup v2 hierarchy that stands beside
	// those of v1; empty: there is none.
	Hybrid  []string
	Agent   Agent
	Podman  Podman
	Process Process
	Network Network
	Pause   string // path of the catatonit that Podman's pause image is made from
	Root    Disk   // the agent's
	Storage Disk   // Podman's
	// Manifests are the directories that the agent reads; unknown while it is
	// down.
	Manifests []Directory
	Clock     Clock
	Inotify   Inotify
	Files     Files
}

// Agent is what the agent says of itself.
type Agent struct {
	Socket   string
	Err      string
	Client   string // the client's version
	Version  string
	NotReady []string // failed checks of /readyz, with their reasons
	Info     wire.Agent
}

// Podman is what Podman says of itself.
type Podman struct {
	Binary     string // path; empty: none
	URL        string // of the service that was asked
	ServiceErr string // why it did not answer
	InfoErr    string // why not even the command did
	Info       *Info
}

// Info is the part of Podman's info that matters here. The service and the
// command answer the same.
type Info struct {
	Host struct {
		CgroupManager     string   `json:"cgroupManager"`
		CgroupVersion     string   `json:"cgroupVersion"` // v1 or v2; hybrid counts as v1
		CgroupControllers []string `json:"cgroupControllers"`
		NetworkBackend    string   `json:"networkBackend"`
		OCIRuntime        struct {
			Name string `json:"name"`
			Path string `json:"path"`
		} `json:"ociRuntime"`
		Security struct {
			Rootless bool `json:"rootless"`
		} `json:"security"`
	} `json:"host"`
	Store struct {
		GraphDriverName string `json:"graphDriverName"`
		GraphRoot       string `json:"graphRoot"`
	} `json:"store"`
	Version struct {
		Version string `json:"Version"`
	} `json:"version"`
}

// Process is what this process may do; the agent and Podman are taken to be
// allowed the same.
type Process struct {
	Root        bool
	SysResource bool // it may raise its limits
	MaxFiles    uint64
	MaxTasks    uint64
	// Ulimits are default_ulimits of containers.conf, soft:hard by name, and
	// UlimitsErr why the file could not be read.
	Ulimits    map[string]Ulimit
	UlimitsErr string
}

// Ulimit is a limit that Podman gives to containers.
type Ulimit struct{ Soft, Hard uint64 }

// Network is what Podman's network needs, by path; empty: missing.
type Network struct {
	Netavark string
	Iptables string
	Nft      string
}

// Disk is a file system.
type Disk struct {
	Path        string // the directory that is meant
	Err         string
	Type        string // as in mount(8), of the kinds that matter; else empty
	TotalBytes  uint64
	FreeBytes   uint64 // for those who are not root
	TotalInodes uint64
	FreeInodes  uint64
	ReadOnly    bool
}

// Directory is one that has to be read.
type Directory struct {
	Path string
	Err  string // why it can't be
}

// Clock is what the kernel knows of the clock's quality.
type Clock struct {
	Synchronised bool
	Err          string
}

// Inotify is the kernel's limits on watching directories.
type Inotify struct {
	Err          string // why a watch could not be made
	MaxInstances uint64
	MaxWatches   uint64
}

// Files is how many files the whole machine has open, and may.
type Files struct {
	Err  string
	Open uint64
	Max  uint64
}

// Examine judges the facts, in the order in which they are best mended.
func Examine(f Facts) []Finding {
	findings := []Finding{examineAgent(f.Agent)}
	findings = append(findings, examinePodman(f)...)
	return append(findings,
		examineNetwork(f),
		examinePause(f),
		examineUlimits(f),
		examineDisk("root-dir", f.Root, rootNeeds),
		examineManifests(f.Manifests),
		examineClock(f),
		examineInotify(f.Inotify),
		examineFiles(f),
	)
}

// Failed reports whether anything has to be mended before pods can run.
func Failed(findings []Finding) bool {
	for _, f := range findings {
		if f.Level == Fail {
			return true
		}
	}
	return false
}
