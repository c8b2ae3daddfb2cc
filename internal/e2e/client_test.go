package e2e

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// TestClient uses every verb on a file's pod and on applied ones.
func TestClient(t *testing.T) {
	t.Parallel()
	a := startAgent(t)
	a.drop(t, newPod("web", sleeper("a"), sleeper("b")))
	a.awaitRunning(t, static("web"), "a", "b")
	t.Run("apply", a.clientApplies)
	t.Run("refusals", a.clientIsRefused)
	t.Run("get pods", a.clientGetsPods)
	t.Run("get the rest", a.clientGetsRest)
	t.Run("describe and why", a.clientExplains)
	t.Run("sql", a.clientAsksSQL)
	t.Run("completion", a.clientCompletes)
	t.Run("version", a.clientVersions)
	t.Run("doctor", a.clientDoctor)
	t.Run("delete", a.clientDeletes)
	t.Run("no agent", a.clientAlone)
}

// contains fails unless the text has all the words.
func contains(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%q is not in:\n%s", w, text)
		}
	}
}

// refused runs a command that must fail, saying the words on standard error.
func (a *agent) refused(t *testing.T, words []string, arguments ...string) {
	t.Helper()
	out := a.podstead(t, arguments...)
	if out.status != 1 || out.stderr == "" {
		t.Errorf("podstead %s: status %d, want 1; it says %q", strings.Join(arguments, " "), out.status, out.stderr)
	}
	contains(t, out.stderr, words...)
}

func (a *agent) clientApplies(t *testing.T) {
	dir := t.TempDir()
	one := filepath.Join(dir, "one.yaml")
	if err := os.WriteFile(one, manifest(t, newPod("one", sleeper("a"))), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, a.prints(t, "apply", "-f", one, "--dry-run=server"), "pod/one created (server dry run)")
	contains(t, a.prints(t, "apply", "-f", one), "pod/one created")
	contains(t, a.prints(t, "apply", "-f", dir), "pod/one unchanged")
	out := a.podsteadWith(t, string(manifest(t, newPod("one", with(sleeper("a"), "N", "1")), newPod("two", sleeper("a")))), "apply", "-f", "-")
	if out.status != 0 {
		t.Fatalf("apply from standard input: %s", out.stderr)
	}
	contains(t, out.stdout, "pod/one configured", "pod/two created")
	a.awaitRunning(t, "one", "a")
	a.awaitRunning(t, "two", "a")
}

func (a *agent) clientIsRefused(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	text := "apiVersion: v1\nkind: Pod\nmetadata: {name: bad}\nspec:\n  containers:\n  - name: a\n    imago: busybox\n"
	if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a.refused(t, []string{bad + ":7", "spec.containers[0].imago"}, "apply", "-f", bad)
	contains(t, a.prints(t, "get", "rejections"), "spec.containers[0].imago")
	a.refused(t, []string{"no such file"}, "apply", "-f", bad+".missing")
	a.refused(t, []string{"web.yaml"}, "delete", "pod", "web")
	a.refused(t, []string{"nobody"}, "delete", "pod", "nobody")
	a.refused(t, []string{"nobody"}, "get", "pods", "nobody")
	a.refused(t, []string{"nobody"}, "describe", "pod", "nobody")
	a.refused(t, []string{"nobody"}, "why", "nobody")
	a.refused(t, []string{"table, json, csv"}, "sql", "select 1", "-o", "xml")
	a.refused(t, nil, "no-such-verb")
}

func (a *agent) clientGetsPods(t *testing.T) {
	var list corev1.PodList
	text := a.prints(t, "get", "pods", "-o", "json")
	if err := json.Unmarshal([]byte(text), &list); err != nil || list.Kind != "PodList" || list.APIVersion != "v1" || len(list.Items) != 3 {
		t.Errorf("it is no PodList of three pods (%v): %s", err, text)
	}
	for _, p := range list.Items {
		if p.Status.Phase != corev1.PodRunning || p.UID == "" || p.Spec.NodeName != nodeName || p.Spec.RestartPolicy != corev1.RestartPolicyAlways {
			t.Errorf("a pod is shown as %s %s on %q", p.Name, p.Status.Phase, p.Spec.NodeName)
		}
	}
	var one corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(a.prints(t, "get", "pod", "web", "-o", "yaml")), &one); err != nil || one.Name != static("web") {
		t.Errorf("asked for web, it is %q (%v)", one.Name, err)
	}
	contains(t, a.prints(t, "get", "pods"), "NAME", "READY", "STATUS", "RESTARTS", "AGE", static("web"), "2/2", "Running")
	contains(t, a.prints(t, "get", "pods", "-o", "wide"), "IP", one.Status.PodIP)
	contains(t, a.prints(t, "get", "pods", "-A"), "NAMESPACE", "default")
	if out := a.podstead(t, "get", "pods", "-n", "elsewhere"); out.status != 0 || out.stdout != "" || !strings.Contains(out.stderr, "elsewhere") {
		t.Errorf("of an empty namespace it says %+v", out)
	}
}

func (a *agent) clientGetsRest(t *testing.T) {
	contains(t, a.prints(t, "get", "containers"), "CONTAINER", static("web"), "running", "busybox")
	contains(t, a.prints(t, "get", "containers", "web", "-o", "wide"), "CONTAINER ID", a.live(t, static("web"))["a"].ID)
	contains(t, a.prints(t, "get", "sources"), "directory", a.manifests, "http", "true")
	var rows []map[string]any
	text := a.prints(t, "get", "transitions", "web", "-o", "json")
	if err := json.Unmarshal([]byte(text), &rows); err != nil || len(rows) < 5 {
		t.Fatalf("the transitions are %s (%v)", text, err)
	}
	for _, r := range rows {
		if r["pod"] != static("web") || r["cause"] == "" || r["to"] == "" || r["at"] == "" {
			t.Errorf("a transition is %v", r)
		}
	}
	if first := rows[0]; first["event"] != "submit" || first["cause"] != "source" {
		t.Errorf("the first transition is %v", first)
	}
	contains(t, a.prints(t, "get", "transitions", "-o", "wide", "--limit", "1000"), "FROM", "EVENT", "CAUSE", static("web"))
}

func (a *agent) clientExplains(t *testing.T) {
	contains(t, a.prints(t, "describe", "pod", "web"), static("web"), "Running", "Container ID", "busybox", "Events:", "Started", "Transitions:")
	contains(t, a.prints(t, "why", "web"), static("web")+" is Running", "web.yaml", "What happened:", "was submitted", "runs")
	contains(t, a.prints(t, "why", "web/a"), "Container a", "started")
}

func (a *agent) clientAsksSQL(t *testing.T) {
	contains(t, a.prints(t, "sql", "select pod, container, state from containers order by 1, 2"), "pod", "container", static("web"), "running")
	var rows []map[string]any
	if err := json.Unmarshal([]byte(a.prints(t, "sql", "-o", "json", "select count(*) as n from pods")), &rows); err != nil || len(rows) != 1 || rows[0]["n"] != 3.0 {
		t.Errorf("three pods are counted as %v (%v)", rows, err)
	}
	table, err := csv.NewReader(strings.NewReader(a.prints(t, "sql", "-o", "csv", "select name from pods where name = :name", "--param", "name=one"))).ReadAll()
	if err != nil || len(table) != 2 || table[1][0] != "one" {
		t.Errorf("the CSV is %v (%v)", table, err)
	}
	for _, view := range []string{"pods", "containers", "images", "why", "drift"} {
		a.prints(t, "sql", "select * from "+view)
	}
	before := a.prints(t, "sql", "select * from desired_pods")
	target := filepath.Join(t.TempDir(), "stolen.db")
	for _, statement := range []string{
		"insert into events select * from events",
		"update desired_pods set state = 'Failed'",
		"delete from desired_pods",
		"drop table desired_pods",
		"create table mine (a)",
		"attach '" + target + "' as stolen",
		"vacuum into '" + target + "'",
		"pragma query_only = off",
		"pragma journal_mode = delete",
		"begin immediate",
		"select 1; delete from desired_pods",
		"with x as (select 1) delete from desired_pods",
	} {
		a.refused(t, nil, "sql", statement)
	}
	if after := a.prints(t, "sql", "select * from desired_pods"); after != before {
		t.Errorf("the refused statements changed\n%s\nto\n%s", before, after)
	}
	if _, err := os.Stat(target); err == nil {
		t.Error("a refused statement made a file")
	}
	a.refused(t, []string{"syntax error"}, "sql", "selec 1")
	// It ends, and the agent answers others meanwhile and after.
	a.refused(t, nil, "sql", "with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n")
	if err := a.healthy("/healthz"); err != nil {
		t.Error(err)
	}
}

func (a *agent) clientCompletes(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		contains(t, a.prints(t, "completion", shell), "podstead")
	}
	contains(t, a.prints(t, "__complete", "describe", "pod", "w"), static("web"))
	contains(t, a.prints(t, "__complete", "get", ""), "pods", "rejections", "transitions")
}

func (a *agent) clientVersions(t *testing.T) {
	contains(t, a.prints(t, "version"), "Client:", "Agent:", "Kubernetes v1.")
	contains(t, a.prints(t, "version", "-o", "json"), `"client"`, `"agent"`, `"gitVersion"`)
}

func (a *agent) clientDoctor(t *testing.T) {
	out := a.podstead(t, "doctor")
	contains(t, out.stdout, "OK", "FAIL")
	var findings []struct{ Level, Check, Found, Remedy string }
	asJSON := a.podstead(t, "doctor", "-o", "json")
	if err := json.Unmarshal([]byte(asJSON.stdout), &findings); err != nil || len(findings) < 8 {
		t.Fatalf("the findings are %s (%v)", asJSON.stdout, err)
	}
	failed := false
	for _, f := range findings {
		failed = failed || f.Level == "FAIL"
		if f.Check == "" || f.Found == "" || f.Level != "OK" && f.Remedy == "" {
			t.Errorf("a finding says not all that it should: %+v", f)
		}
	}
	if failed != (out.status == 1) || out.status != asJSON.status {
		t.Errorf("the exit statuses are %d and %d, and a failure is %t:\n%s", out.status, asJSON.status, failed, out.stdout)
	}
	contains(t, out.stdout, "4.3")
}

func (a *agent) clientDeletes(t *testing.T) {
	two := filepath.Join(t.TempDir(), "two.yaml")
	if err := os.WriteFile(two, manifest(t, newPod("two", sleeper("a"))), 0o600); err != nil {
		t.Fatal(err)
	}
	contains(t, a.prints(t, "delete", "-f", two), `pod "two" deleted`)
	if left := a.containers(t, "two"); len(left) > 0 {
		t.Errorf("delete returned, and there is %v", left)
	}
	contains(t, a.prints(t, "delete", "pod", "one", "--grace-period", "0"), `pod "one" deleted`)
	if left := a.containers(t, "one"); len(left) > 0 {
		t.Errorf("delete returned, and there is %v", left)
	}
	a.refused(t, []string{"two"}, "delete", "-f", two)
	a.prints(t, "delete", "-f", two, "--ignore-not-found")
	contains(t, a.prints(t, "why", "one"), "is gone", "over HTTP")
}

// clientAlone is last: it stops the agent.
func (a *agent) clientAlone(t *testing.T) {
	a.stopInTime(t)
	a.refused(t, []string{a.socket, "podsteadd"}, "get", "pods")
	a.prints(t, "version", "--client")
	out := a.podstead(t, "doctor", "--root-dir", a.root, "--podman-url", a.host.URL)
	if out.status != 1 {
		t.Errorf("without an agent doctor ends with status %d:\n%s", out.status, out.stdout)
	}
	contains(t, out.stdout, "FAIL", a.socket)
}
