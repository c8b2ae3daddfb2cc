package podmanhost

import (
	"net/netip"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

// prepareFirewall makes netavark set up the chains that all of its networks share.
// Two netavarks that do so at the same time fail, one of them with "Chain already
// exists"; hosts run in parallel and have no lock in common, so the first of the
// machine does it for all, with a container that has a port.
func (p *Service) prepareFirewall() error {
	unlock, err := lock(Base)
	if err != nil {
		return err
	}
	defer unlock()
	if exec.Command("iptables", "-w", "-t", "nat", "-n", "-L", "NETAVARK-HOSTPORT-MASQ").Run() == nil {
		return nil
	}
	_, err = p.Podman("run", "--rm", "--quiet", "--publish", "127.0.0.1::80", "busybox", "true")
	return err
}

var addressPattern = regexp.MustCompile(`\d+\.\d+\.\d+\.\d+`)

// removeRules removes the host's rules and chains from the tables that netavark
// writes to, and leaves the chains that hosts share.
func removeRules(s slot) error {
	for _, table := range []string{"nat", "filter"} {
		saved, err := output(nil, "iptables-save", "-t", table)
		if err != nil {
			return err
		}
		script := s.restoreScript(table, saved)
		if script == "" {
			continue
		}
		if _, err := outputWithInput(script, nil, "iptables-restore", "--wait", "--noflush"); err != nil {
			return err
		}
	}
	return nil
}

// restoreScript is the input of iptables-restore that undoes what the host added
// to a table, or empty when that is nothing.
func (s slot) restoreScript(table, saved string) string {
	var deletions, chains []string
	for line := range strings.Lines(saved) {
		rule, isRule := strings.CutPrefix(strings.TrimSpace(line), "-A ")
		if !isRule || !s.concerns(rule) {
			continue
		}
		fields := strings.Fields(rule)
		if own(fields[0]) {
			chains = append(chains, fields[0])
		} else {
			deletions = append(deletions, "-D "+rule)
		}
		if target := slices.Index(fields, "-j") + 1; target > 0 && own(fields[target]) {
			chains = append(chains, fields[target])
		}
	}
	if len(deletions)+len(chains) == 0 {
		return ""
	}
	slices.Sort(chains)
	lines := append([]string{"*" + table}, deletions...)
	for _, verb := range []string{"-F ", "-X "} {
		for _, chain := range slices.Compact(slices.Clone(chains)) {
			lines = append(lines, verb+chain)
		}
	}
	return strings.Join(append(lines, "COMMIT", ""), "\n")
}

// own says whether the chain is one network's: netavark names those by a hash, and
// the ones that networks share by a word.
func own(chain string) bool {
	return strings.HasPrefix(chain, "NETAVARK-") && !strings.HasPrefix(chain, "NETAVARK-HOSTPORT-")
}

// concerns says whether a rule names an address of the host's subnet or its network.
func (s slot) concerns(rule string) bool {
	for _, word := range addressPattern.FindAllString(rule, -1) {
		if address, err := netip.ParseAddr(word); err == nil && s.subnet().Contains(address) {
			return true
		}
	}
	return strings.Contains(rule, "dnat name: "+s.bridge()+"-")
}
