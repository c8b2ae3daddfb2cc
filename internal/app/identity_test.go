package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func named(name string, err error) host {
	return host{hostname: func() (string, error) { return name, err }}
}

func TestNodeName(t *testing.T) {
	tests := []struct {
		host     host
		override string
		want     string
		says     string
	}{
		{host: named("Edge-7.Example", nil), want: "edge-7.example"},
		{host: named("edge", nil), override: "other", want: "other"},
		{host: named("", errors.New("no name")), override: "other", want: "other"},
		{host: named("", errors.New("no name")), says: "--hostname-override"},
		{host: named("my_box", nil), says: "--hostname-override"},
		{host: named("", nil), says: "--hostname-override"},
	}
	for _, test := range tests {
		got, err := test.host.nodeName(test.override)
		if got != test.want || (err == nil) != (test.says == "") {
			t.Errorf("got %q and %v, want %q", got, err, test.want)
		}
		if err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%q does not say %q", err, test.says)
		}
	}
}

func TestThisHost(t *testing.T) {
	if name, err := thisHost().nodeName(""); err != nil || name == "" {
		t.Errorf("node name %q and %v", name, err)
	}
	boot, err := thisHost().bootIdentity()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := uuid.Parse(boot); err != nil {
		t.Errorf("boot ID %q: %v", boot, err)
	}
	if id, err := thisHost().nodeIdentity("/r"); err != nil || uuid.Validate(id) != nil {
		t.Errorf("node ID %q and %v", id, err)
	}
}

func withMachineID(t *testing.T, content string) host {
	t.Helper()
	path := filepath.Join(t.TempDir(), "machine-id")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return host{machineID: path}
}

func TestNodeIdentity(t *testing.T) {
	const machine = "0123456789abcdef0123456789abcdef\n"
	identity := func(h host, root string) string {
		t.Helper()
		id, err := h.nodeIdentity(root)
		if err != nil || uuid.Validate(id) != nil {
			t.Errorf("got %q and %v", id, err)
		}
		return id
	}
	first := identity(withMachineID(t, machine), "/var/lib/podstead")
	if again := identity(withMachineID(t, machine), "/var/lib/podstead"); again != first {
		t.Errorf("the same machine is %s and then %s", first, again)
	}
	// Another value than ever before would orphan every container.
	if want := "7c624cf1-df7b-552e-8e8d-4d4223980309"; first != want {
		t.Errorf("the machine is %s, want %s", first, want)
	}
	if other := identity(withMachineID(t, machine), "/tmp/other"); other == first {
		t.Error("two agents on one machine are the same node")
	}
	without := []host{
		withMachineID(t, ""), withMachineID(t, "uninitialized\n"), {machineID: filepath.Join(t.TempDir(), "absent")},
	}
	for _, h := range without {
		one, two := identity(h, "/r"), identity(h, "/r")
		if one == two {
			t.Errorf("machines without an ID (%s) are all the same node", h.machineID)
		}
	}
	if _, err := (host{machineID: t.TempDir()}).nodeIdentity("/r"); err == nil {
		t.Error("an unreadable ID is no error")
	}
}
