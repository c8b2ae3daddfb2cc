package doctor

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// oldestPodman is the first version whose API the agent speaks.
const oldestPodman = 4

func examineAgent(a Agent) Finding {
	f := Finding{Check: "agent"}
	switch {
	case a.Err != "":
		f.Level, f.Found = Fail, a.Err
		f.Remedy = "start it: systemctl start podsteadd; if it does not stay up: journalctl -u podsteadd"
	case len(a.NotReady) > 0:
		f.Level, f.Found = Fail, "not ready: "+strings.Join(a.NotReady, "; ")
		f.Remedy = "mend what is named here; the agent goes on by itself"
	case a.Version != a.Client:
		f.Level, f.Found = Warn, fmt.Sprintf("%s answers at %s, but this client is %s", a.Version, a.Socket, a.Client)
		f.Remedy = "restart the agent after an upgrade, pods keep running: systemctl restart podsteadd"
	default:
		f.Level, f.Found = OK, fmt.Sprintf("%s answers at %s and is ready", a.Version, a.Socket)
	}
	return f
}

// examinePodman has the findings that Podman's info is needed for; without it
// there is only one.
func examinePodman(f Facts) []Finding {
	findings := []Finding{examineService(f.Podman)}
	if f.Podman.Info == nil {
		return findings
	}
	return append(findings,
		examineVersion(f.Podman),
		examineStorage(f),
		examineDisk("storage disk", f.Storage, storageNeeds),
		examineCgroups(f),
		examineControllers(*f.Podman.Info),
	)
}

func examineService(p Podman) Finding {
	f := Finding{Check: "podman service"}
	switch {
	case p.ServiceErr == "":
		f.Level, f.Found = OK, "answers at "+p.URL
	case p.Binary == "":
		f.Level, f.Found = Fail, fmt.Sprintf("nothing answers at %s (%s), and there is no podman command", p.URL, p.ServiceErr)
		f.Remedy = "install Podman 4 or later: apt-get install podman"
	case p.Info == nil:
		f.Level, f.Found = Fail, fmt.Sprintf("nothing answers at %s (%s), and podman info fails: %s", p.URL, p.ServiceErr, p.InfoErr)
		f.Remedy = "mend what podman info says"
	default:
		f.Level, f.Found = Warn, fmt.Sprintf("nothing answers at %s (%s)", p.URL, p.ServiceErr)
		f.Remedy = "the agent starts a service of its own when none answers; for the system's: systemctl enable --now podman.socket"
	}
	return f
}

func examineVersion(p Podman) Finding {
	f := Finding{Check: "podman version", Level: OK, Found: p.Info.Version.Version}
	if major(p.Info.Version.Version) < oldestPodman {
		f.Level, f.Remedy = Fail, fmt.Sprintf("install Podman %d or later", oldestPodman)
	}
	return f
}

// major is the first number of a version, 0 when it has none.
func major(version string) int {
	first, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(first)
	if err != nil {
		return 0
	}
	return n
}

func examineStorage(f Facts) Finding {
	store := f.Podman.Info.Store
	out := Finding{Check: "storage", Level: OK, Found: fmt.Sprintf("%s in %s", store.GraphDriverName, store.GraphRoot)}
	if store.GraphDriverName == "vfs" {
		out.Level = Warn
		out.Found += ": every container is a full copy of its image"
		out.Remedy = `set driver = "overlay" in /etc/containers/storage.conf (images have to be pulled anew); a file system that refuses overlay needs fuse-overlayfs`
	}
	return out
}

func examineCgroups(f Facts) Finding {
	host := f.Podman.Info.Host
	out := Finding{Check: "cgroups", Level: OK, Found: fmt.Sprintf("%s, %s manager, %s", host.CgroupVersion, host.CgroupManager, host.OCIRuntime.Name)}
	switch {
	case host.CgroupVersion == "v1" && host.OCIRuntime.Name == "crun" && len(f.Hybrid) > 0:
		out.Level = Fail
		out.Found += ": crun refuses hybrid cgroups, and v2 has " + strings.Join(f.Hybrid, " ")
		out.Remedy = `install runc and set runtime = "runc" under [engine] in /etc/containers/containers.conf, or boot with systemd.unified_cgroup_hierarchy=1`
	case host.CgroupManager == "systemd" && !f.Systemd:
		out.Level = Fail
		out.Found += ": systemd is not running"
		out.Remedy = `set cgroup_manager = "cgroupfs" under [engine] in /etc/containers/containers.conf`
	}
	return out
}

func examineControllers(info Info) Finding {
	out := Finding{Check: "cgroup controllers", Level: OK, Found: strings.Join(info.Host.CgroupControllers, " ")}
	var missing []string
	for _, c := range []string{"cpu", "memory", "pids"} {
		if !slices.Contains(info.Host.CgroupControllers, c) {
			missing = append(missing, c)
		}
	}
	if len(missing) > 0 {
		out.Level = Warn
		out.Found = "missing: " + strings.Join(missing, ", ") + "; such limits of pods can't be set"
		out.Remedy = "enable them: cgroup_enable=memory on the kernel's command line (on a Raspberry Pi in cmdline.txt), or Delegate=yes for the service that runs Podman"
	}
	return out
}
