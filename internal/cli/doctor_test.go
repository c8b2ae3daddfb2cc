package cli_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"podstead.io/podstead/internal/cli/doctor"
)

// findings runs doctor on this machine, whatever that has; only what the agent
// says is known here.
func (a *agent) findings(want int) map[string]doctor.Finding {
	a.t.Helper()
	o := a.run("doctor", "-o", "json", "--podman-url", "unix:///nonexistent/podman.sock")
	var list []doctor.Finding
	if err := json.Unmarshal([]byte(o.stdout), &list); err != nil {
		a.t.Fatalf("%v: %+v", err, o)
	}
	failed := 0
	by := map[string]doctor.Finding{}
	for _, f := range list {
		by[f.Check] = f
		if f.Level == doctor.Fail {
			failed = 1
		}
		if (f.Level == doctor.OK) != (f.Remedy == "") {
			a.t.Errorf("a remedy is there if and only if something is wrong: %+v", f)
		}
	}
	if o.code != failed || want >= 0 && failed != want {
		a.t.Errorf("status %d with %+v", o.code, list)
	}
	return by
}

func TestDoctorAsksTheAgent(t *testing.T) {
	a := newAgent(t)
	if f := a.findings(-1)["agent"]; f.Level != doctor.OK || !strings.Contains(f.Found, a.socket) {
		t.Errorf("%+v", f)
	}
	a.ready = errors.New("Podman hangs")
	if f := a.findings(1)["agent"]; f.Level != doctor.Fail || !strings.Contains(f.Found, "podman failed: Podman hangs") {
		t.Errorf("%+v", f)
	}
	a.stop()
	by := a.findings(1)
	if f := by["agent"]; f.Level != doctor.Fail || !strings.Contains(f.Found, "cannot reach") {
		t.Errorf("%+v", f)
	}
	if _, ok := by["clock"]; !ok {
		t.Error("with the agent down the machine is not looked at")
	}
	o := a.run("doctor")
	if o.code != 1 || !strings.HasPrefix(o.stdout, "FAIL   agent") || !strings.Contains(o.stdout, "→ ") || !strings.Contains(o.stdout, " FAIL\n") || o.stderr != "" {
		t.Errorf("%+v", o)
	}
}
