package doctor

import (
	"strings"
	"testing"
	"time"

	"podstead.io/podstead/internal/wire"
)

// healthy are the facts of a machine with nothing wrong.
func healthy() Facts {
	info := &Info{}
	info.Version.Version = "4.3.1"
	info.Host.CgroupManager, info.Host.CgroupVersion = "systemd", "v2"
	info.Host.CgroupControllers = []string{"cpuset", "cpu", "memory", "pids"}
	info.Host.NetworkBackend = "netavark"
	info.Host.OCIRuntime.Name = "crun"
	info.Store.GraphDriverName, info.Store.GraphRoot = "overlay", "/var/lib/containers/storage"
	roomy := Disk{TotalBytes: 100 << 30, FreeBytes: 50 << 30, TotalInodes: 1000, FreeInodes: 500}
	root, storage := roomy, roomy
	root.Path, storage.Path = "/var/lib/podstead", "/var/lib/containers/storage"
	return Facts{
		Now:     time.Date(2027, 3, 1, 12, 0, 0, 0, time.UTC),
		Systemd: true,
		Agent:   Agent{Socket: "/run/podstead/podstead.sock", Client: "v1", Version: "v1", Info: wire.Agent{Node: "n"}},
		Podman:  Podman{Binary: "/usr/bin/podman", URL: "unix:///run/podman/podman.sock", Info: info},
		Process: Process{Root: true, SysResource: true, MaxFiles: 1 << 19, MaxTasks: 1 << 15},
		Network: Network{Netavark: "/usr/lib/podman/netavark", Iptables: "/usr/sbin/iptables"},
		Pause:   "/usr/libexec/podman/catatonit",
		Root:    root, Storage: storage,
		Clock:   Clock{Synchronised: true},
		Inotify: Inotify{MaxInstances: 128, MaxWatches: 65536},
		Files:   Files{Open: 1000, Max: 1 << 40},
	}
}

func find1(findings []Finding, check string) Finding {
	for _, f := range findings {
		if f.Check == check {
			return f
		}
	}
	return Finding{}
}

func TestNothingWrong(t *testing.T) {
	findings := Examine(healthy())
	for _, f := range findings {
		if f.Level != OK || f.Remedy != "" || f.Found == "" {
			t.Errorf("%+v", f)
		}
	}
	if Failed(findings) || len(findings) != 15 {
		t.Errorf("%d findings", len(findings))
	}
}

func TestExamine(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*Facts)
		check  string
		level  Level
		found  string
		remedy string
	}{
		{"agent down", func(f *Facts) { f.Agent.Err = "connect: no such file or directory" }, "agent", Fail, "no such file", "systemctl start podsteadd"},
		{"agent not ready", func(f *Facts) { f.Agent.NotReady = []string{"podman failed: hangs", "store failed: full"} }, "agent", Fail, "podman failed: hangs; store failed: full", "mend"},
		{"agent not restarted", func(f *Facts) { f.Agent.Version = "v0" }, "agent", Warn, "v0 answers", "systemctl restart podsteadd"},

		{"no Podman", func(f *Facts) { f.Podman = Podman{URL: "unix:///x", ServiceErr: "refused"} }, "podman service", Fail, "no podman command", "apt-get install podman"},
		{"Podman broken", func(f *Facts) { f.Podman.Info, f.Podman.ServiceErr, f.Podman.InfoErr = nil, "refused", "no subuid" }, "podman service", Fail, "no subuid", "podman info"},
		{"no service", func(f *Facts) { f.Podman.ServiceErr = "refused" }, "podman service", Warn, "refused", "systemctl enable --now podman.socket"},
		{"Podman too old", func(f *Facts) { f.Podman.Info.Version.Version = "3.4.4" }, "podman version", Fail, "3.4.4", "4 or later"},
		{"Podman of no version", func(f *Facts) { f.Podman.Info.Version.Version = "" }, "podman version", Fail, "", "4 or later"},
		{"Podman 5", func(f *Facts) { f.Podman.Info.Version.Version = "5.4.0-dev" }, "podman version", OK, "5.4.0", ""},
		{"vfs", func(f *Facts) { f.Podman.Info.Store.GraphDriverName = "vfs" }, "storage", Warn, "full copy", "overlay"},
		{"images fill the disk", func(f *Facts) { f.Storage.FreeBytes = 900 << 20 }, "storage disk", Warn, "900.0 MiB of 100.0 GiB", "podman system df"},
		{"images filled the disk", func(f *Facts) { f.Storage.FreeBytes = 10 << 20 }, "storage disk", Fail, "10.0 MiB", "podman system df"},
		{"images in memory", func(f *Facts) { f.Storage.Type = "tmpfs" }, "storage disk", OK, "", ""},

		{"crun on hybrid", func(f *Facts) { f.Podman.Info.Host.CgroupVersion, f.Hybrid = "v1", []string{"hugetlb"} }, "cgroups", Fail, "hugetlb", `runtime = "runc"`},
		{"crun on v1", func(f *Facts) { f.Podman.Info.Host.CgroupVersion = "v1" }, "cgroups", OK, "v1", ""},
		{"runc on hybrid", func(f *Facts) {
			f.Podman.Info.Host.CgroupVersion, f.Hybrid, f.Podman.Info.Host.OCIRuntime.Name = "v1", []string{"hugetlb"}, "runc"
		}, "cgroups", OK, "runc", ""},
		{"no systemd", func(f *Facts) { f.Systemd = false }, "cgroups", Fail, "systemd is not running", `cgroup_manager = "cgroupfs"`},
		{"no systemd needed", func(f *Facts) { f.Systemd, f.Podman.Info.Host.CgroupManager = false, "cgroupfs" }, "cgroups", OK, "cgroupfs", ""},
		{"Raspberry Pi", func(f *Facts) { f.Podman.Info.Host.CgroupControllers = []string{"cpu", "pids"} }, "cgroup controllers", Warn, "missing: memory", "cgroup_enable=memory"},

		{"LXC", func(f *Facts) { f.Process.SysResource = false }, "ulimits", Fail, "nofile=1048576", `default_ulimits = ["nofile=524288:524288", "nproc=32768:32768"]`},
		{"LXC, set up", func(f *Facts) {
			f.Process.SysResource = false
			f.Process.Ulimits = map[string]Ulimit{"nofile": {1024, 1 << 19}, "nproc": {1024, 1 << 15}}
		}, "ulimits", OK, "", ""},
		{"LXC, half set up", func(f *Facts) {
			f.Process.SysResource = false
			f.Process.Ulimits = map[string]Ulimit{"nofile": {1024, 1 << 19}}
		}, "ulimits", Fail, "nproc=1048576", "nproc=32768:32768"},
		{"LXC without root", func(f *Facts) { f.Process.SysResource, f.Process.Root = false, false }, "ulimits", OK, "", ""},
		{"containers.conf broken", func(f *Facts) { f.Process.UlimitsErr = "/etc/containers/containers.conf: line 3" }, "ulimits", Fail, "line 3", "mend the file"},

		{"CNI", func(f *Facts) { f.Podman.Info.Host.NetworkBackend = "cni" }, "network", Warn, "CNI", "netavark"},
		{"no netavark", func(f *Facts) { f.Network.Netavark = "" }, "network", Fail, "netavark is missing", "apt-get install netavark"},
		{"no firewall", func(f *Facts) { f.Network.Iptables = "" }, "network", Fail, "neither", "apt-get install iptables"},
		{"only nft", func(f *Facts) { f.Network.Iptables, f.Network.Nft = "", "/usr/sbin/nft" }, "network", Warn, "only nft", "nftables"},
		{"no catatonit", func(f *Facts) { f.Pause = "" }, "pause image", Fail, "catatonit", "apt-get install catatonit"},

		{"database disk full", func(f *Facts) { f.Root.FreeBytes = 1 << 20 }, "root-dir", Fail, "1.0 MiB", "free some space"},
		{"database disk low", func(f *Facts) { f.Root.FreeBytes = 100 << 20 }, "root-dir", Warn, "100.0 MiB", "free some space"},
		{"database in memory", func(f *Facts) { f.Root.Type = "tmpfs" }, "root-dir", Warn, "in memory", "--root-dir on a disk"},
		{"database on NFS", func(f *Facts) { f.Root.Type = "nfs" }, "root-dir", Fail, "nfs", "local disk"},
		{"database read-only", func(f *Facts) { f.Root.ReadOnly = true }, "root-dir", Fail, "read-only", "writable"},
		{"no inodes", func(f *Facts) { f.Root.FreeInodes = 10 }, "root-dir", Warn, "10 of 1000 inodes", "inodes"},
		{"no directory", func(f *Facts) { f.Root.Err = "/var: permission denied" }, "root-dir", Fail, "permission denied", "/var/lib/podstead"},

		{"manifests read", func(f *Facts) { f.Manifests = []Directory{{Path: "/a"}, {Path: "/b"}} }, "manifests", OK, "/a, /b", ""},
		{"manifests missing", func(f *Facts) { f.Manifests = []Directory{{Path: "/a"}, {Path: "/b", Err: "open /b: no such file"}} }, "manifests", Warn, "no such file", "mkdir -p /b"},

		{"clock never set", func(f *Facts) { f.Now = time.Unix(60, 0) }, "clock", Fail, "1970-01-01", "timedatectl set-time"},
		{"clock drifts", func(f *Facts) { f.Clock.Synchronised = false }, "clock", Warn, "not synchronised", "set-ntp"},
		{"clock unknown", func(f *Facts) { f.Clock.Err = "EPERM" }, "clock", Warn, "EPERM", "timedatectl"},
		{"inotify used up", func(f *Facts) { f.Inotify.Err = "too many open files" }, "inotify", Fail, "too many open files", "max_user_instances"},
		{"inotify scarce", func(f *Facts) { f.Inotify.MaxInstances = 8 }, "inotify", Warn, "8 instances", "max_user_instances"},
		{"files scarce", func(f *Facts) { f.Process.MaxFiles = 1024 }, "file descriptors", Warn, "1024", "LimitNOFILE"},
		{"files used up", func(f *Facts) { f.Files.Open, f.Files.Max = 95, 100 }, "file descriptors", Warn, "95 of 100", "fs.file-max"},
		{"files unknown", func(f *Facts) { f.Files = Files{Err: "no /proc"} }, "file descriptors", Warn, "", "no /proc"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := healthy()
			c.change(&f)
			findings := Examine(f)
			got := find1(findings, c.check)
			if got.Level != c.level || !strings.Contains(got.Found, c.found) || !strings.Contains(got.Remedy, c.remedy) {
				t.Errorf("got %+v", got)
			}
			if (got.Remedy == "") != (c.level == OK) {
				t.Errorf("the remedy of %s is %q", c.level, got.Remedy)
			}
			if Failed(findings) != (c.level == Fail) {
				t.Errorf("failed: %v, with %+v", Failed(findings), findings)
			}
		})
	}
}

// Without Podman's info the rest is still looked at.
func TestExamineWithoutPodman(t *testing.T) {
	f := healthy()
	f.Podman = Podman{ServiceErr: "refused"}
	findings := Examine(f)
	for _, check := range []string{"network", "root-dir", "clock", "ulimits"} {
		if got := find1(findings, check); got.Level != OK {
			t.Errorf("%s: %+v", check, got)
		}
	}
	if got := find1(findings, "cgroups"); got != (Finding{}) {
		t.Errorf("cgroups are judged by nothing: %+v", got)
	}
}
