package podmanhost

import (
	"strings"
	"testing"
)

func TestRestoreScriptRemovesOnlyTheHostsRules(t *testing.T) {
	saved := strings.Join([]string{
		"*nat",
		":PREROUTING ACCEPT [0:0]",
		":NETAVARK-2E1E5370D6B02 - [0:0]",
		"-A PREROUTING -m addrtype --dst-type LOCAL -j NETAVARK-HOSTPORT-DNAT",
		"-A POSTROUTING -s 10.213.4.0/22 -j NETAVARK-2E1E5370D6B02",
		"-A POSTROUTING -s 10.213.8.0/22 -j NETAVARK-AAAAAAAAAAAAA",
		"-A NETAVARK-2E1E5370D6B02 -d 10.213.4.0/22 -j ACCEPT",
		"-A NETAVARK-2E1E5370D6B02 ! -d 224.0.0.0/4 -j MASQUERADE",
		`-A NETAVARK-HOSTPORT-DNAT -p tcp -m tcp --dport 8080 -m comment --comment "dnat name: pdst1-9f id: 0123" -j NETAVARK-DN-2E1E5370D6B02`,
		`-A NETAVARK-HOSTPORT-DNAT -p tcp -m tcp --dport 8081 -m comment --comment "dnat name: pdst11-9f id: 0123" -j NETAVARK-DN-BBBBBBBBBBBBB`,
		"-A NETAVARK-DN-2E1E5370D6B02 -p tcp -m tcp --dport 8080 -j DNAT --to-destination 10.213.5.2:80",
		"COMMIT",
	}, "\n")
	want := strings.Join([]string{
		"*nat",
		"-D POSTROUTING -s 10.213.4.0/22 -j NETAVARK-2E1E5370D6B02",
		`-D NETAVARK-HOSTPORT-DNAT -p tcp -m tcp --dport 8080 -m comment --comment "dnat name: pdst1-9f id: 0123" -j NETAVARK-DN-2E1E5370D6B02`,
		"-F NETAVARK-2E1E5370D6B02",
		"-F NETAVARK-DN-2E1E5370D6B02",
		"-X NETAVARK-2E1E5370D6B02",
		"-X NETAVARK-DN-2E1E5370D6B02",
		"COMMIT",
		"",
	}, "\n")
	if got := slot(1).restoreScript("nat", saved); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := slot(3).restoreScript("nat", saved); got != "" {
		t.Errorf("a host without rules gets\n%s", got)
	}
}
