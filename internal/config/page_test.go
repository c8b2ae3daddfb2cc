package config

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

//go:generate go test -run ^TestConfigurationPage$ . -update

var update = flag.Bool("update", false, "write web/docs/configuration.md anew")

const page = "../../web/docs/configuration.md"

const pageHead = `# Configuration

` + "`podsteadd`" + ` runs without any configuration. What can be changed is changed by flags, most of them
kubelet's and meaning the same. Where kubelet has a field for it in its configuration file, the file
given by ` + "`--config`" + ` may set it instead:

` + "```yaml" + `
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
staticPodPath: /etc/kubernetes/manifests
syncFrequency: 30s
logging:
  format: json
` + "```" + `

A flag wins over the file, the file over an environment variable, and that over the default. A field
that kubelet doesn't know is an error; one that kubelet knows and Podstead has no use for is named in a
warning at start. A flag of kubelet that is not below is refused.
`

const pageTail = `
## Notes

- ` + "`serializeImagePulls: true`" + ` is ` + "`--max-parallel-image-pulls 1`" + `; ` + "`false`" + ` leaves the number as it is.
- A frequency of ` + "`0s`" + ` in the file asks for the default, as in kubelet.
- ` + "`--v`" + ` and ` + "`--log-level`" + ` set the same; give one.
- Registries, mirrors, credentials and certificates are Podman's: the agent reads
  ` + "`registries.conf`" + `, ` + "`auth.json`" + ` and ` + "`certs.d`" + ` as ` + "`podman pull`" + ` does, with
  ` + "`CONTAINERS_REGISTRIES_CONF`" + ` and ` + "`REGISTRY_AUTH_FILE`" + `. It asks registries itself before Podman
  pulls, so a proxy has to be set for both (` + "`HTTPS_PROXY`" + `).

## Exit status

| status | meaning |
|---|---|
| 0 | stopped by a signal; ` + "`--help`" + ` or ` + "`--version`" + ` |
| 1 | it could not start, or had to give up: the last log line says why |
| 2 | it crashed, or was found to hang: the log has the stacks |
| 78 | a flag, the environment or the file is wrong: starting again won't help |
| 128 + n | ended at once by a second signal with the number n |
`

// configurationPage is the manual's page about the settings.
func configurationPage() string {
	var b strings.Builder
	b.WriteString(pageHead)
	for _, section := range sections {
		fmt.Fprintf(&b, "\n## %s\n\n| flag | field of the file | default | meaning |\n|---|---|---|---|\n", section.title)
		for _, s := range section.settings {
			b.WriteString(row(s))
		}
	}
	b.WriteString(pageTail)
	return b.String()
}

func row(s setting) string {
	flags := newParser().flags
	name, usage := pflag.UnquoteUsage(flags.Lookup(s.flag))
	spelling := fmt.Sprintf("`--%s %s`", s.flag, name)
	if s.shorthand != "" {
		spelling = fmt.Sprintf("`-%s`, %s", s.shorthand, spelling)
	}
	fields := make([]string, len(s.fields))
	for i, field := range s.fields {
		fields[i] = "`" + field + "`"
	}
	standard := flags.Lookup(s.flag).DefValue
	if standard != "" {
		standard = "`" + standard + "`"
	}
	return fmt.Sprintf("| %s | %s | %s | %s |\n", spelling, strings.Join(fields, ", "), standard, usage)
}

func TestConfigurationPage(t *testing.T) {
	want := configurationPage()
	if *update {
		if err := os.WriteFile(page, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is not up to date: run `just generate`", page)
	}
}
