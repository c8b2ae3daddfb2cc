package cli_test

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func TestGetPods(t *testing.T) {
	a := newAgent(t)
	a.web()
	a.runWith(podManifest("job"), "apply", "-f", "-")
	a.runWith(podManifest("job"), "apply", "-n", "prod", "-f", "-")
	for name, args := range map[string][]string{
		"pods":      {"get", "pods"},
		"pods-wide": {"get", "po", "-o", "wide"},
		"pods-all":  {"get", "pods", "-A"},
		"pods-name": {"get", "pod", "web"},
		"pods-two":  {"get", "pods", "job", "web-" + node},
	} {
		golden(t, name, steady(a.must(args...)))
	}
	var list corev1.PodList
	if err := json.Unmarshal([]byte(a.must("get", "pods", "-o", "json")), &list); err != nil || list.Kind != "PodList" || len(list.Items) != 2 {
		t.Errorf("%v: %+v", err, list)
	}
	var one corev1.Pod
	if err := yaml.Unmarshal([]byte(a.must("get", "pods", "web", "-o", "yaml")), &one); err != nil || one.Kind != "Pod" || one.Name != "web-"+node {
		t.Errorf("%v: %+v", err, one)
	}
}

func TestGetListings(t *testing.T) {
	a := newAgent(t)
	a.web()
	a.runWith("kind: Deployment\n", "apply", "-f", "-")
	for name, args := range map[string][]string{
		"containers":         {"get", "containers"},
		"containers-wide":    {"get", "containers", "web", "-o", "wide"},
		"containers-all":     {"get", "containers", "-A"},
		"sources":            {"get", "sources"},
		"rejections":         {"get", "rejections"},
		"rejections-of":      {"get", "rejections", "web"},
		"transitions":        {"get", "transitions", "web"},
		"transitions-latest": {"get", "transitions", "--limit", "2", "-o", "wide"},
		"sources-yaml":       {"get", "sources", "-o", "yaml"},
	} {
		golden(t, name, uids.ReplaceAllString(a.must(args...), "<uid>"))
	}
	var rows []map[string]any
	text := a.must("get", "transitions", "web", "-o", "json")
	if err := json.Unmarshal([]byte(text), &rows); err != nil || len(rows) < 6 || rows[0]["event"] != "submit" {
		t.Errorf("%v: %s", err, text)
	}
}

func TestGetNothing(t *testing.T) {
	a := newAgent(t)
	for want, args := range map[string][]string{
		"No resources found in default namespace.\n": {"get", "pods"},
		"No resources found in prod namespace.\n":    {"get", "containers", "-n", "prod"},
		"No resources found\n":                       {"get", "rejections"},
	} {
		if o := a.run(args...); o.code != 0 || o.stdout != "" || o.stderr != want {
			t.Errorf("%v: %+v, want %q", args, o, want)
		}
	}
	if o := a.run("get", "pods", "ghost"); o.code != 1 || o.stderr != "error: pods \"ghost\" not found in namespace default\n" {
		t.Errorf("%+v", o)
	}
	if o := a.run("get", "pods", "-A", "ghost"); o.code != 1 || !strings.Contains(o.stderr, "leave out -A") {
		t.Errorf("%+v", o)
	}
}

// A name that is a pod's whole name goes before one that a suffix would make so.
func TestStaticPodsGoByTheNameInTheFile(t *testing.T) {
	a := newAgent(t)
	a.web()
	a.runWith(podManifest("web"), "apply", "-f", "-")
	for arg, want := range map[string]string{"web": "web", "web-" + node: "web-" + node} {
		if out := a.must("get", "pods", arg, "-o", "json"); !strings.Contains(out, `"name": "`+want+`"`) {
			t.Errorf("%s is %s", arg, out)
		}
	}
}

func TestBadArguments(t *testing.T) {
	a := newAgent(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "pods", "-o", "xml"}, "it must be one of wide, json, yaml"},
		{[]string{"get", "nonsense"}, `unknown command "nonsense"`},
		{[]string{"nonsense"}, `unknown command "nonsense"`},
		{[]string{"get", "sources", "x"}, "unknown command"},
		{[]string{"apply"}, `"filename" not set`},
		{[]string{"apply", "-f", "/nonexistent.yaml"}, "no such file"},
		{[]string{"apply", "-f", t.TempDir()}, "holds no .yaml"},
		{[]string{"apply", "--dry-run=client", "-f", "-"}, "none or server"},
		{[]string{"delete"}, "-f FILE"},
		{[]string{"sql"}, "either a query or -f"},
		{[]string{"sql", "select 1", "-f", "x"}, "either a query or -f"},
		{[]string{"sql", "select 1", "--param", "x"}, "NAME=VALUE"},
		{[]string{"why"}, "accepts 1 arg"},
	} {
		if o := a.run(c.args...); o.code != 1 || o.stdout != "" || !strings.HasPrefix(o.stderr, "error: ") || !strings.Contains(o.stderr, c.want) {
			t.Errorf("%v: %+v, want %q", c.args, o, c.want)
		}
	}
}
