package config

import (
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func noEnv(string) string { return "" }

// with is Default with changes.
func with(change func(*Config)) Config {
	c := Default()
	change(&c)
	return c
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

const fileHead = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n"

func TestParse(t *testing.T) {
	tests := []struct {
		name string
		args []string
		env  map[string]string
		file string
		want Config
	}{
		{name: "nothing", want: Default()},
		{name: "every flag",
			args: []string{
				"--pod-manifest-path", "/pods/", "--manifest-url=https://example.com/pods", "--file-check-frequency", "1s",
				"--manifest-url-header", "a:hello,b:again", "--manifest-url-header", "b:beautiful",
				"--http-check-frequency", "2s", "--sync-frequency", "3s", "--podman-url", "unix:///p.sock",
				"--image-registry-timeout", "4s", "--max-parallel-image-pulls", "5", "--root-dir", "/r/", "--socket", "/s.sock",
				"--socket-group", "0", "--hostname-override", "edge-7.example", "--log-level", "warn", "--log-format", "json",
			},
			want: Config{
				PodManifestPath: "/pods", ManifestURL: "https://example.com/pods",
				ManifestURLHeader:  http.Header{"A": {"hello"}, "B": {"again", "beautiful"}},
				FileCheckFrequency: time.Second, HTTPCheckFrequency: 2 * time.Second, SyncFrequency: 3 * time.Second,
				PodmanURL: "unix:///p.sock", ImageRegistryTimeout: 4 * time.Second, MaxParallelImagePulls: 5,
				RootDir: "/r", Socket: "/s.sock", SocketGroup: "0", SocketGID: 0, HostnameOverride: "edge-7.example",
				LogLevel: slog.LevelWarn, LogFormat: "json",
			}},
		{name: "a group by name", args: []string{"--socket-group", "root"}, want: with(func(c *Config) { c.SocketGroup, c.SocketGID = "root", 0 })},
		{name: "no directory", args: []string{"--pod-manifest-path="}, want: with(func(c *Config) { c.PodManifestPath = "" })},
		{name: "a value that looks like a flag", args: []string{"--socket-group=", "--manifest-url=http://h/", "--manifest-url-header=A:--b"},
			want: with(func(c *Config) { c.ManifestURL, c.ManifestURLHeader = "http://h/", http.Header{"A": {"--b"}} })},
		{name: "klog verbosity", args: []string{"-v4"}, want: with(func(c *Config) { c.LogLevel = slog.LevelDebug })},
		{name: "less of it", args: []string{"--v=2"}, want: Default()},
		{name: "socket from the environment", env: map[string]string{"PODSTEAD_SOCKET": "/e.sock"},
			want: with(func(c *Config) { c.Socket = "/e.sock" })},
		{name: "flag over environment", env: map[string]string{"PODSTEAD_SOCKET": "/e.sock"}, args: []string{"--socket=/f.sock"},
			want: with(func(c *Config) { c.Socket = "/f.sock" })},
		{name: "every field of the file",
			file: `
staticPodPath: /etc/kubernetes/manifests
staticPodURL: https://example.com/pods
staticPodURLHeader: {a: [hello, again]}
fileCheckFrequency: 1m
httpCheckFrequency: 0s
syncFrequency: 3s
serializeImagePulls: false
maxParallelImagePulls: 2
logging: {format: json, verbosity: 5}
`,
			want: with(func(c *Config) {
				c.PodManifestPath, c.ManifestURL = "/etc/kubernetes/manifests", "https://example.com/pods"
				c.ManifestURLHeader = http.Header{"A": {"hello", "again"}}
				c.FileCheckFrequency, c.SyncFrequency = time.Minute, 3*time.Second
				c.MaxParallelImagePulls, c.LogFormat, c.LogLevel = 2, "json", slog.LevelDebug
			})},
		{name: "flags over the file", file: "staticPodPath: /file\nsyncFrequency: 3s\nlogging: {verbosity: 5}\n",
			args: []string{"--pod-manifest-path=/flag", "--log-level=error"},
			want: with(func(c *Config) {
				c.PodManifestPath, c.SyncFrequency, c.LogLevel = "/flag", 3*time.Second, slog.LevelError
			})},
		{name: "a flag equal to the default wins too", file: "syncFrequency: 3s\n", args: []string{"--sync-frequency=1m"}, want: Default()},
		{name: "one pull at a time", file: "serializeImagePulls: true\n", want: with(func(c *Config) { c.MaxParallelImagePulls = 1 })},
		{name: "null is not set", file: "staticPodPath: null\nevictionHard: null\n", want: Default()},
		{name: "fields without effect", file: "evictionHard: {memory.available: 1Mi}\ncgroupDriver: systemd\nlogging: {vmodule: []}\n",
			want: with(func(c *Config) {
				c.Warnings = []string{"FILE: these fields have no effect: cgroupDriver, evictionHard, logging.vmodule"}
			})},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			args := test.args
			if test.file != "" {
				file := writeFile(t, fileHead+test.file)
				args = append([]string{"--config", file}, args...)
				for i := range test.want.Warnings {
					test.want.Warnings[i] = strings.ReplaceAll(test.want.Warnings[i], "FILE", file)
				}
			}
			got, err := Parse(args, func(name string) string { return test.env[name] })
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("got  %+v\nwant %+v", got, test.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	long := "/" + strings.Repeat("x", 107)
	tests := []struct {
		args []string
		file string
		env  map[string]string
		want []string // each is a part of the text
	}{
		{args: []string{"--file-chek-frequency=1s"}, want: []string{"--file-chek-frequency", "did you mean --file-check-frequency?"}},
		{args: []string{"--manifest"}, want: []string{"did you mean --manifest-url?"}},
		{args: []string{"--eviction-hard=memory.available<1Mi"}, want: []string{"--eviction-hard", "not supported yet"}},
		{args: []string{"--register-node"}, want: []string{"--register-node", "not supported yet"}},
		{args: []string{"--kubeconfig=/x"}, want: []string{"--kubeconfig", "see podsteadd --help"}},
		{args: []string{"-x"}, want: []string{"-x", "see podsteadd --help"}},
		{args: []string{"--root-dir"}, want: []string{"--root-dir", "a value is missing"}},
		{args: []string{"--podman-url", "--sync-frequency", "1m"}, want: []string{"--podman-url: a value is missing", `"--sync-frequency"`, "--podman-url="}},
		{args: []string{"--root-dir", "/r", "--manifest-url", "--log-level=info"}, want: []string{"--manifest-url: a value is missing", `"--log-level=info"`}},
		{args: []string{"--config", "--help"}, want: []string{"--config: a value is missing"}},
		{args: []string{"-v", "--help"}, want: []string{"-v: a value is missing"}},
		{args: []string{"--socket", "--"}, want: []string{"--socket: a value is missing"}},
		{args: []string{"web.yaml"}, want: []string{"web.yaml", "podstead apply -f"}},
		{args: []string{"--v=1", "--log-level=info"}, want: []string{"--v and --log-level", "one of them"}},
		{args: []string{"--sync-frequency=5"}, want: []string{"--sync-frequency", `"5"`, "20s"}},
		{args: []string{"--sync-frequency=-1s"}, want: []string{"--sync-frequency", "100ms or more"}},
		{args: []string{"--image-registry-timeout=0"}, want: []string{"--image-registry-timeout", "more than 0s"}},
		{args: []string{"--max-parallel-image-pulls=many"}, want: []string{"--max-parallel-image-pulls", "whole number"}},
		{args: []string{"--max-parallel-image-pulls=0"}, want: []string{"--max-parallel-image-pulls", "1 or more"}},
		{args: []string{"--log-level=loud"}, want: []string{"--log-level", "debug, info, warn or error"}},
		{args: []string{"--log-format=xml"}, want: []string{"--log-format", "text or json"}},
		{args: []string{"-v=-1"}, want: []string{"--v", "whole number from 0"}},
		{args: []string{"--root-dir=here", "--socket=there"}, want: []string{"--root-dir", "--socket", "absolute path"}},
		{args: []string{"--socket=" + long}, want: []string{"--socket", "107 bytes"}},
		{args: []string{"--podman-url=tcp://10.0.0.1:80"}, want: []string{"--podman-url", "unix:///run/podman/podman.sock"}},
		{args: []string{"--manifest-url=example.com"}, want: []string{"--manifest-url", "https://"}},
		{args: []string{"--manifest-url-header=a"}, want: []string{"--manifest-url-header"}},
		{args: []string{"--manifest-url-header=a:b"}, want: []string{"--manifest-url-header", "no --manifest-url"}},
		{args: []string{"--manifest-url=http://h/", "--manifest-url-header=a b:c"}, want: []string{"--manifest-url-header", "no HTTP header name"}},
		{args: []string{"--hostname-override=Edge_7"}, want: []string{"--hostname-override", "Edge_7"}},
		{args: []string{"--socket-group=no-such-group"}, want: []string{"--socket-group", "groupadd"}},
		{env: map[string]string{"PODSTEAD_SOCKET": "here"}, want: []string{"PODSTEAD_SOCKET", "absolute path"}},
		{args: []string{"--config=/does/not/exist"}, want: []string{"--config", "/does/not/exist"}},
		{file: "kind: KubeletConfiguration\n", want: []string{"--config", "FILE", "kubelet.config.k8s.io/v1beta1"}},
		{file: fileHead + "staticPodPth: /x\nlogging:\n  verbosity: 1\n  fromat: json\n", want: []string{
			"FILE:3: staticPodPth: there is no such field; did you mean staticPodPath?",
			"FILE:6: logging.fromat: there is no such field; did you mean logging.format?",
		}},
		{file: fileHead + "StaticPodPath: /x\n", want: []string{"FILE:3: StaticPodPath: there is no such field; did you mean staticPodPath?"}},
		{file: fileHead + "anything: 1\n", want: []string{"FILE:3: anything: there is no such field"}},
		{file: fileHead + "registerWithTaints:\n- key: a\n  efect: NoSchedule\n", want: []string{
			"FILE:5: registerWithTaints[0].efect: there is no such field; did you mean registerWithTaints[0].effect?",
		}},
		{file: `{"apiVersion": "kubelet.config.k8s.io/v1beta1",` + "\n" + `"kind": "KubeletConfiguration",` + "\n" + `"syncFrequenzy": "1m"}`, want: []string{
			"FILE:3: syncFrequenzy: there is no such field; did you mean syncFrequency?",
		}},
		{file: fileHead + "staticPodPath: /x\nstaticPodPath: /y\n", want: []string{"FILE", "line 4", "staticPodPath"}},
		{file: fileHead + "staticPodPath: [x]\nsyncFrequency: 5\nlogging: {verbosity: high}\n", want: []string{
			"FILE:3: staticPodPath: it has a value of type array, and takes a string",
			"FILE:4: syncFrequency: it has a value of type number, and takes a string",
			"FILE:5: logging.verbosity: it has a value of type string, and takes a uint32",
		}},
		{file: fileHead + "fileCheckFrequency: soon\n", want: []string{"FILE:3: fileCheckFrequency", "soon"}},
		{file: fileHead + "fileCheckFrequency: 1ms\n", want: []string{"FILE:3: fileCheckFrequency", "100ms or more"}},
		{file: fileHead + "staticPodPath: here\n", want: []string{"FILE:3: staticPodPath", "absolute path"}},
		{file: fileHead + "serializeImagePulls: true\nmaxParallelImagePulls: 3\n", want: []string{"FILE:3: serializeImagePulls", "maxParallelImagePulls is 3"}},
		{file: fileHead + "staticPodURL: x\nlogging: {format: xml}\n", want: []string{"FILE:3: staticPodURL", "FILE:4: logging.format"}},
		{file: "apiVersion: v1\nkind: Pod\nspec: {}\n", want: []string{"--config", "FILE", `"v1"`, "Pod", "KubeletConfiguration"}},
		{file: "- apiVersion: v1\n", want: []string{"--config", "FILE", "no mapping"}},
		{file: "", want: []string{"--config", "FILE", "no mapping"}},
		{file: fileHead + "---\nstaticPodPath: /x\n", want: []string{"--config", "FILE", "line 3", "second document"}},
		{file: "\t", want: []string{"FILE"}},
	}
	for _, test := range tests {
		args, file := test.args, ""
		if len(args) == 0 && test.env == nil {
			file = writeFile(t, test.file)
			args = []string{"--config", file}
		}
		_, err := Parse(args, func(name string) string { return test.env[name] })
		if err == nil {
			t.Errorf("%v %q: no error", test.args, test.file)
			continue
		}
		for _, want := range test.want {
			if want = strings.ReplaceAll(want, "FILE", file); !strings.Contains(err.Error(), want) {
				t.Errorf("%v %q: %q does not say %q", test.args, test.file, err, want)
			}
		}
	}
}

func TestErrorsKeepSecrets(t *testing.T) {
	_, err := Parse([]string{"--manifest-url=http://h/", "--manifest-url-header=Authorization:pass\nword"}, noEnv)
	if err == nil || strings.Contains(err.Error(), "word") {
		t.Errorf("got %v, want an error without the header's value", err)
	}
}

func TestHelpAndVersion(t *testing.T) {
	for args, want := range map[string]error{"--help": ErrHelp, "-h": ErrHelp, "--version": ErrVersion} {
		if _, err := Parse([]string{args}, noEnv); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", args, err, want)
		}
	}
}

func TestUsageNamesEveryFlagAndFits(t *testing.T) {
	usage := Usage()
	for _, s := range settings() {
		if !strings.Contains(usage, "--"+s.flag+" ") {
			t.Errorf("the help text lacks --%s", s.flag)
		}
	}
	for line := range strings.Lines(usage) {
		if len(line) > usageWidth+1 {
			t.Errorf("too long: %s", line)
		}
	}
}

// Every field of the file that is taken must belong to a flag, or a flag could
// not win over it.
func TestFieldsBelongToFlags(t *testing.T) {
	for field := range takers {
		if flagOf(field) == "" {
			t.Errorf("no flag for %s", field)
		}
	}
	for _, s := range settings() {
		for _, field := range s.fields {
			if takers[field] == nil {
				t.Errorf("--%s: nobody takes %s", s.flag, field)
			}
		}
	}
}

func TestRuntimeDir(t *testing.T) {
	if got := Default().RuntimeDir(); got != "/run/podstead" {
		t.Error(got)
	}
}
