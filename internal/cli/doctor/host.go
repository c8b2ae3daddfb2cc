package doctor

import (
	"fmt"
	"strings"
	"time"
)

// podmanUlimit is the limit of open files and of tasks that Podman 4 asks for
// each container of root's unless containers.conf has others
// (RLimitDefaultValue in libpod/define).
const podmanUlimit = 1 << 20

// examineUlimits tells whether the limits that Podman gives to containers can be
// set at all: without CAP_SYS_RESOURCE, as in LXC and small virtual machines,
// none can be above the process's own.
func examineUlimits(f Facts) Finding {
	p := f.Process
	out := Finding{Check: "ulimits", Level: OK, Found: fmt.Sprintf("open files %d, tasks %d", p.MaxFiles, p.MaxTasks)}
	if p.UlimitsErr != "" {
		out.Level, out.Found, out.Remedy = Fail, p.UlimitsErr, "mend the file; Podman reads it too"
		return out
	}
	if p.SysResource || !p.Root {
		return out // limits can be raised, or Podman keeps to those there are
	}
	for _, l := range []struct {
		name string
		own  uint64
	}{{"nofile", p.MaxFiles}, {"nproc", p.MaxTasks}} {
		wanted := uint64(podmanUlimit)
		if u, set := p.Ulimits[l.name]; set {
			wanted = u.Hard
		}
		if wanted > l.own {
			out.Level = Fail
			out.Found = fmt.Sprintf("Podman gives containers %s=%d, but %d is the most here, without CAP_SYS_RESOURCE", l.name, wanted, l.own)
			out.Remedy = fmt.Sprintf(`set default_ulimits = ["nofile=%[1]d:%[1]d", "nproc=%[2]d:%[2]d"] under [containers] in /etc/containers/containers.conf`, min(p.MaxFiles, podmanUlimit), min(p.MaxTasks, podmanUlimit))
			return out
		}
	}
	return out
}

func examineNetwork(f Facts) Finding {
	out := Finding{Check: "network"}
	backend := ""
	if f.Podman.Info != nil {
		backend = f.Podman.Info.Host.NetworkBackend
	}
	switch {
	case backend == "cni":
		out.Level, out.Found = Warn, "Podman uses CNI, which its newer versions have no more"
		out.Remedy = `install netavark and aardvark-dns, set network_backend = "netavark" under [network] in /etc/containers/containers.conf, and run podman system reset (it removes all containers and images)`
	case f.Network.Netavark == "":
		out.Level, out.Found = Fail, "netavark is missing"
		out.Remedy = "apt-get install netavark aardvark-dns"
	case f.Network.Iptables == "" && f.Network.Nft == "":
		out.Level, out.Found = Fail, "neither iptables nor nft is there for netavark to use"
		out.Remedy = "apt-get install iptables"
	case f.Network.Iptables == "":
		out.Level, out.Found = Warn, "netavark before 1.10 needs iptables, and only nft is there"
		out.Remedy = `apt-get install iptables, or set firewall_driver = "nftables" under [network] in /etc/containers/containers.conf`
	default:
		out.Level, out.Found = OK, "netavark with "+f.Network.Iptables
	}
	return out
}

func examinePause(f Facts) Finding {
	if f.Pause == "" {
		return Finding{Check: "pause image", Level: Fail, Found: "catatonit, which Podman makes it from, is missing", Remedy: "apt-get install catatonit"}
	}
	return Finding{Check: "pause image", Level: OK, Found: "made from " + f.Pause}
}

// needs is what a disk must have free, in bytes.
type needs struct {
	fail, warn uint64
	lasting    bool // it must survive a reboot
	local      bool // SQLite's write-ahead log does not work over a network
}

var (
	rootNeeds    = needs{fail: 32 << 20, warn: 512 << 20, lasting: true, local: true}
	storageNeeds = needs{fail: 64 << 20, warn: 1 << 30}
)

func examineDisk(check string, d Disk, n needs) Finding {
	out := Finding{Check: check, Level: OK, Found: fmt.Sprintf("%s: %s of %s free", d.Path, size(d.FreeBytes), size(d.TotalBytes))}
	switch {
	case d.Err != "":
		out.Level, out.Found, out.Remedy = Fail, d.Err, "make "+d.Path+" a directory that can be read"
	case d.ReadOnly:
		out.Level, out.Found, out.Remedy = Fail, d.Path+" is on a read-only file system", "mount it writable, or choose another directory"
	case n.local && networked(d.Type):
		out.Level, out.Found = Fail, fmt.Sprintf("%s is on %s, where SQLite's log does not work", d.Path, d.Type)
		out.Remedy = "give the agent a --root-dir on a local disk"
	case d.FreeBytes < n.fail:
		out.Level, out.Remedy = Fail, "free some space: podman system df shows what images take"
	case n.lasting && d.Type == "tmpfs":
		out.Level, out.Found = Warn, d.Path+" is in memory: pods that were applied are forgotten at a reboot"
		out.Remedy = "give the agent a --root-dir on a disk"
	case d.FreeBytes < n.warn:
		out.Level, out.Remedy = Warn, "free some space: podman system df shows what images take"
	case d.TotalInodes > 0 && d.FreeInodes < d.TotalInodes/20:
		out.Level, out.Found = Warn, fmt.Sprintf("%s: %d of %d inodes free", d.Path, d.FreeInodes, d.TotalInodes)
		out.Remedy = "remove small files, or make a file system with more inodes"
	}
	return out
}

func networked(fs string) bool { return fs == "nfs" || fs == "cifs" || fs == "9p" }

// size is a number of bytes for people.
func size(n uint64) string {
	for _, unit := range []struct {
		name string
		of   uint64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= unit.of {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(unit.of), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

func examineManifests(list []Directory) Finding {
	out := Finding{Check: "manifests", Level: OK, Found: "no directory is known to be read"}
	for i, d := range list {
		if d.Err != "" {
			return Finding{Check: "manifests", Level: Warn, Found: d.Err, Remedy: "mkdir -p " + d.Path + "; the agent notices"}
		}
		if i == 0 {
			out.Found = d.Path
		} else {
			out.Found += ", " + d.Path
		}
	}
	return out
}

// firstYear is before any Podstead: a clock that shows an earlier one was never
// set.
const firstYear = 2026

func examineClock(f Facts) Finding {
	out := Finding{Check: "clock", Level: OK, Found: f.Now.UTC().Format(time.RFC3339) + ", synchronised"}
	switch {
	case f.Now.UTC().Year() < firstYear:
		out.Level, out.Found = Fail, "it shows "+f.Now.UTC().Format(time.RFC3339)+": registries' certificates are not valid yet"
		out.Remedy = "set it: timedatectl set-time, and check the battery of the hardware clock"
	case f.Clock.Err != "":
		out.Level, out.Found = Warn, "the kernel does not say whether it is synchronised: "+f.Clock.Err
		out.Remedy = "check it by hand: timedatectl"
	case !f.Clock.Synchronised:
		out.Level, out.Found = Warn, f.Now.UTC().Format(time.RFC3339)+", not synchronised with a time server"
		out.Remedy = "timedatectl set-ntp true, or install chrony; offline, expect drift in the history's times"
	}
	return out
}

func examineInotify(i Inotify) Finding {
	out := Finding{Check: "inotify", Level: OK, Found: fmt.Sprintf("%d instances, %d watches a user", i.MaxInstances, i.MaxWatches)}
	remedy := "sysctl -w fs.inotify.max_user_instances=512 fs.inotify.max_user_watches=65536, and put it into /etc/sysctl.d"
	switch {
	case i.Err != "":
		out.Level, out.Found, out.Remedy = Fail, "a directory can't be watched: "+i.Err, remedy
	case i.MaxInstances < 64 || i.MaxWatches < 4096:
		out.Level, out.Remedy = Warn, remedy
	}
	return out
}

func examineFiles(f Facts) Finding {
	out := Finding{Check: "file descriptors", Level: OK, Found: fmt.Sprintf("%d of %d open on the machine, %d for one process", f.Files.Open, f.Files.Max, f.Process.MaxFiles)}
	var wrong []string
	if f.Files.Err != "" {
		wrong = append(wrong, f.Files.Err)
	} else if f.Files.Open > f.Files.Max/10*9 {
		wrong = append(wrong, "the machine has nearly all open that it may; sysctl -w fs.file-max")
	}
	if f.Process.MaxFiles < 4096 {
		wrong = append(wrong, "one process needs 4096: LimitNOFILE=65536 in the agent's and Podman's units")
	}
	if len(wrong) > 0 {
		out.Level, out.Remedy = Warn, strings.Join(wrong, "; ")
	}
	return out
}
