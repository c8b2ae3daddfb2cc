package cli_test

import (
	"encoding/json"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
	"podstead.io/podstead/internal/wire"
)

func TestWhy(t *testing.T) {
	a := newAgent(t)
	a.web()
	golden(t, "why", a.must("why", "web"))
	golden(t, "why-container", a.must("why", "web-"+node+"/log-truncator"))
	if o := a.run("why", "web/ghost"); o.code != 1 || !strings.Contains(o.stderr, "has no container ghost") {
		t.Errorf("%+v", o)
	}
	if o := a.run("why", "ghost"); o.code != 1 || !strings.Contains(o.stderr, `pods "ghost" not found`) {
		t.Errorf("%+v", o)
	}
}

// What is gone is asked about most.
func TestWhyOfAPodThatIsGone(t *testing.T) {
	a := newAgent(t)
	a.drop("web.yaml", webManifest)
	a.drop("none.yaml", "# nothing\n")
	d := a.pod("web-" + node)
	a.commit(d, pod.Record{Forget: true, Transitions: []pod.Transition{
		{Key: d.Key, UID: d.UID, Machine: pod.MachinePod, From: "Pending", Event: "delete", To: "Terminating", Cause: pod.CauseSource, Detail: "web.yaml was removed", Generation: 1},
		{Key: d.Key, UID: d.UID, Machine: pod.MachinePod, From: "Terminating", Event: "forget", To: "Gone", Cause: pod.CauseSource, Detail: "web.yaml was removed", Generation: 1},
	}})
	golden(t, "why-gone", a.must("why", "web"))
}

// A pod that can't be made says what Podman said.
func TestWhyNamesTheFailure(t *testing.T) {
	a := newAgent(t)
	a.drop("web.yaml", webManifest)
	d := a.pod("web-" + node)
	a.commit(d, pod.Record{State: pod.StatePending, Backoffs: []pod.Backoff{{
		Kind: pod.BackoffSandbox, Failures: 2, Until: noon.Add(time.Hour), LastAt: noon, Reason: "CreatePodSandboxError", Message: "create pod k8s_web: the name is taken",
	}}})
	want := "\nWhat failed and is tried again:\n  pod, making its sandbox failed at 2020-12-01T12:00:00Z, 2 times in a row: create pod k8s_web: the name is taken\n"
	if said := a.must("why", "web"); !strings.Contains(said, want) {
		t.Errorf("it says\n%s", said)
	}
}

func TestDescribe(t *testing.T) {
	a := newAgent(t)
	a.web()
	golden(t, "describe", uids.ReplaceAllString(a.must("describe", "pod", "web"), "<uid>"))
	a.runWith(podManifest("job"), "apply", "-f", "-")
	golden(t, "describe-new", uids.ReplaceAllString(a.must("describe", "pod", "job"), "<uid>"))
}

func TestSQL(t *testing.T) {
	a := newAgent(t)
	a.web()
	const query = `select container, "from", "to", attempt, null as n, x'00ff' as b from transitions where machine = :m and attempt < :n order by rowid`
	params := []string{"--param", "m=container", "--param", ":n=1"}
	for _, format := range []string{"table", "csv", "json"} {
		golden(t, "sql-"+format, a.must(append([]string{"sql", query, "-o", format}, params...)...))
	}
	file := filepath.Join(t.TempDir(), "q.sql")
	write(t, file, "select ?1 + ?2 as sum, ?3 as text")
	if got := a.must("sql", "-f", file, "-o", "csv", "--param", "1=40", "--param", "2=2", "--param", "3=007"); got != "sum,text\n42,007\n" {
		t.Errorf("positional parameters: %q", got)
	}
	if o := a.runWith("select 1 as one", "sql", "-f", "-", "-o", "json"); o.stdout != "[{\"one\":1}]\n" {
		t.Errorf("%+v", o)
	}
	if o := a.run("sql", "select nonsense"); o.code != 1 || !strings.Contains(o.stderr, "no such column: nonsense") {
		t.Errorf("%+v", o)
	}
	const many = "with recursive n(i) as (select 1 union all select i + 1 from n where i < 1000) select i from n"
	for _, format := range []string{"table", "json", "csv"} {
		if o := a.run("sql", many, "-o", format); o.code != 0 || !strings.Contains(o.stderr, "warning: this is not all") || !strings.Contains(o.stdout, "500") || strings.Contains(o.stdout, "501") {
			t.Errorf("%s: status %d, %s", format, o.code, o.stderr)
		}
	}
}

// Whatever a container or a registry says must not steer the terminal.
func TestTextOfOthersIsHarmless(t *testing.T) {
	a := newAgent(t)
	a.web()
	for _, args := range [][]string{{"describe", "pod", "web"}, {"sql", "select message from events"}, {"why", "web"}} {
		if out := a.must(args...); strings.ContainsRune(out, 0x1b) {
			t.Errorf("%v prints an escape: %q", args, out)
		}
	}
}

func TestVersion(t *testing.T) {
	a := newAgent(t)
	out := a.must("version")
	if !strings.HasPrefix(out, "Client: v") || !strings.Contains(out, "\nAgent:  v") {
		t.Errorf("%q", out)
	}
	var both struct {
		Client struct{ Version string }
		Agent  wire.Version
	}
	if err := json.Unmarshal([]byte(a.must("version", "-o", "json")), &both); err != nil || both.Client.Version == "" || both.Agent.Podstead != both.Client.Version {
		t.Errorf("%v: %+v", err, both)
	}
	a.stop()
	if out := a.must("version", "--client"); strings.Contains(out, "Agent") {
		t.Errorf("%q", out)
	}
	if o := a.run("version"); o.code != 1 || !strings.HasPrefix(o.stdout, "Client: v") || !strings.Contains(o.stderr, "cannot reach the agent") {
		t.Errorf("%+v", o)
	}
}

func TestAgentThatIsNotThere(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "s")
	env := map[string]string{wire.SocketVariable: "/elsewhere"}
	for _, args := range [][]string{{"get", "pods"}, {"sql", "select 1"}, {"why", "x"}, {"describe", "pod", "x"}, {"delete", "pod", "x"}} {
		o := run(t.Context(), "", env, append(args, "--socket", missing)...)
		want := "error: cannot reach the agent at " + missing + ": connect: no such file or directory\nIs podsteadd running? Try: systemctl status podsteadd"
		if o.code != 1 || !strings.HasPrefix(o.stderr, want) {
			t.Errorf("%v: %+v", args, o)
		}
	}
	// One that takes the call and hangs up.
	l, err := net.Listen("unix", missing)
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for conn, err := l.Accept(); err == nil; conn, err = l.Accept() {
			_ = conn.Close()
		}
	}()
	o := run(t.Context(), "", env, "get", "pods", "--socket", missing)
	if o.code != 1 || !strings.Contains(o.stderr, "cannot reach the agent at "+missing) {
		t.Errorf("%+v", o)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestCompletion(t *testing.T) {
	a := newAgent(t)
	a.web()
	a.runWith(podManifest("job"), "apply", "-f", "-")
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if out := a.must("completion", shell); !strings.Contains(out, "podstead") {
			t.Errorf("%s: %q", shell, out)
		}
	}
	if o := a.run("__complete", "describe", "pod", "j"); !strings.HasPrefix(o.stdout, "job\n") {
		t.Errorf("%+v", o)
	}
	if o := a.run("__complete", "get", "pods", "-o", ""); !strings.HasPrefix(o.stdout, "wide\njson\nyaml\n") {
		t.Errorf("%+v", o)
	}
}
