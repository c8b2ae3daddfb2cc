package config

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"
)

const manualHead = `# NAME

podsteadd - run Kubernetes pods on this machine with Podman and SQLite

# SYNOPSIS

**podsteadd** [*flags*]

# DESCRIPTION

The agent of Podstead. It takes pod manifests from a directory, from a URL and from
**podstead apply**, makes Podman agree with them and keeps it so. It needs no cluster and
no network. **podstead**(1) is its client.

Most flags are kubelet's and mean the same. A flag wins over the file that **--config**
names, the file over the environment, and that over the default.
`

const manualTail = `
# SIGNALS

**SIGTERM**, **SIGINT** and **SIGHUP** stop the agent within 2 s and leave containers
running. A second one, at least 50 ms later, ends it at once.

# EXIT STATUS

**0**
: It was stopped by a signal, or **--help** or **--version** was asked for.

**1**
: It could not start, or had to give up; the last log line says why.

**2**
: It crashed, or was found to hang; the log has the stacks.

**78**
: A flag, the environment or the configuration file is wrong. Starting again won't help.

**128** + *n*
: A second signal, of number *n*, ended it at once.

# ENVIRONMENT

**PODSTEAD_SOCKET**
: Path of the socket, for agent and client; **--socket** wins over it.

**HTTPS_PROXY**, **NO_PROXY**
: Proxy for image registries and **--manifest-url**. Podman takes the same.

**CONTAINERS_REGISTRIES_CONF**, **REGISTRY_AUTH_FILE**
: Configuration of and credentials for image registries, as **podman-pull**(1) has them.

# FILES

*/etc/podstead/manifests*
: Pod manifests.

*/etc/podstead/config.yaml*
: Configuration of **podsteadd.service**.

*/etc/podstead/podsteadd.env*
: Environment of **podsteadd.service**; **PODSTEADD_FLAGS** in it holds further flags.

*/var/lib/podstead*
: The database, its backup and the pods' volumes.

*/run/podstead*
: The socket, and that of a Podman service which the agent started.

# SEE ALSO

**podstead**(1), **podman**(1), **podman-system-service**(1), **containers-registries.conf**(5)
`

// Manual is the agent's manual page as Markdown, without its title.
func Manual() string {
	var b strings.Builder
	b.WriteString(manualHead + "\n# OPTIONS\n")
	flags := newParser().flags
	for _, s := range sections {
		fmt.Fprintf(&b, "\n## %s\n", s.title)
		for _, setting := range s.settings {
			b.WriteString(manualEntry(flags.Lookup(setting.flag), setting.fields))
		}
	}
	b.WriteString("\n## Other\n")
	for _, name := range []string{"config", "version", "help"} {
		b.WriteString(manualEntry(flags.Lookup(name), nil))
	}
	return b.String() + manualTail
}

func manualEntry(f *pflag.Flag, fields []string) string {
	argument, usage := pflag.UnquoteUsage(f)
	spelling := "**--" + f.Name + "**"
	if f.NoOptDefVal == "" {
		spelling += "=*" + argument + "*"
	}
	if f.Shorthand != "" {
		spelling = "**-" + f.Shorthand + "**, " + spelling
	}
	usage = strings.ToUpper(usage[:1]) + usage[1:] + "."
	if f.DefValue != "" && f.NoOptDefVal == "" {
		usage += " Default: " + f.DefValue + "."
	}
	if len(fields) > 0 {
		usage += " In the file: " + strings.Join(fields, ", ") + "."
	}
	return fmt.Sprintf("\n%s\n: %s\n", spelling, usage)
}
