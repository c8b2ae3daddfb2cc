package config

import (
	"strings"

	"github.com/spf13/pflag"
)

// usageWidth is the width of the help text.
const usageWidth = 90

const usageHead = `podsteadd runs Kubernetes pods on this machine with Podman and keeps their state in
SQLite. It takes manifests from a directory, from a URL and from ` + "`podstead apply`" + `,
and needs no cluster and no network.

Usage:
  podsteadd [flags]

  podsteadd                                      everything in its usual place
  podsteadd --root-dir /tmp/a --socket /tmp/a/s  a second agent, kept apart
  podsteadd --manifest-url https://example.com/pods.yaml --http-check-frequency 5m
`

const usageTail = `
SIGTERM, SIGINT and SIGHUP stop the agent within 2 s and leave containers running; a
second one, at least 50 ms later, ends it at once.

Exit status:
  0    stopped by a signal, or --help or --version was asked for
  1    it could not start, or had to give up; the last log line says why
  2    it crashed, or was found to hang; the log has the stacks
  78   a flag, the environment or the --config file is wrong
  128+ a second signal ended it: 128 plus the signal's number
`

// Usage is the help text.
func Usage() string {
	flags := newParser().flags
	var b strings.Builder
	b.WriteString(usageHead)
	print := func(title string, names ...string) {
		group := pflag.NewFlagSet(title, pflag.ContinueOnError)
		group.SortFlags = false
		for _, name := range names {
			group.AddFlag(flags.Lookup(name))
		}
		b.WriteString("\n" + title + ":\n" + group.FlagUsagesWrapped(usageWidth))
	}
	for _, s := range sections {
		var names []string
		for _, setting := range s.settings {
			names = append(names, setting.flag)
		}
		print(s.title, names...)
	}
	print("Other", "config", "version", "help")
	b.WriteString(usageTail)
	return b.String()
}
