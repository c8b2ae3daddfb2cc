package node

import (
	"net"
	"testing"
)

func TestAddressesAreOneOfEachFamily(t *testing.T) {
	seen := map[bool]string{}
	for _, a := range Addresses() {
		ip := net.ParseIP(a)
		if ip == nil {
			t.Fatalf("%q is no address", a)
		}
		v4 := ip.To4() != nil
		if other, ok := seen[v4]; ok {
			t.Errorf("%s and %s are of one family", other, a)
		}
		seen[v4] = a
	}
	if len(seen) == 0 {
		t.Error("no address at all; want at least the loopback one")
	}
}
