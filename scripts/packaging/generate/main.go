// Command generate writes the files of a package that follow from the programs
// themselves: manual pages, shell completions and commented configuration.
//
//	generate DIRECTORY VERSION
//
// It fills etc/podstead and usr/share below the directory. Dates are those of
// SOURCE_DATE_EPOCH, so that the same source makes the same files.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"podstead.io/podstead/internal/cli"
	"podstead.io/podstead/internal/config"
)

// socketGroup is the group that the package makes and its unit names.
const socketGroup = "podstead"

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return errors.New("give a directory and the version")
	}
	root, version := args[0], args[1]
	epoch, err := strconv.ParseInt(os.Getenv("SOURCE_DATE_EPOCH"), 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH: %w", err)
	}
	date := time.Unix(epoch, 0).UTC()
	client := cli.NewCommand(cli.Env{
		Stdin: &bytes.Buffer{}, Stdout: io.Discard, Stderr: io.Discard,
		Getenv: func(string) string { return "" }, Now: func() time.Time { return date },
	})
	client.DisableAutoGenTag = true
	return errors.Join(
		write(root, "etc/podstead/config.yaml", config.File(), private),
		write(root, "etc/podstead/podsteadd.env", config.FlagsFile(socketGroup), private),
		write(root, "usr/share/man/man8/podsteadd.8", agentManual(date, version), public),
		clientManual(root, client, date, version),
		completions(root, client),
	)
}

func agentManual(date time.Time, version string) string {
	title := fmt.Sprintf("%% \"PODSTEADD\" \"8\" \"%s\" \"podstead %s\" \"Podstead\"\n\n", date.Format("Jan 2006"), version)
	return string(md2man.Render([]byte(title + config.Manual())))
}

func clientManual(root string, client *cobra.Command, date time.Time, version string) error {
	dir := filepath.Join(root, "usr/share/man/man1")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	return doc.GenManTree(client, &doc.GenManHeader{Section: "1", Source: "podstead " + version, Manual: "Podstead", Date: &date}, dir)
}

func completions(root string, client *cobra.Command) error {
	var bash, zsh, fish bytes.Buffer
	if err := errors.Join(client.GenBashCompletionV2(&bash, true), client.GenZshCompletion(&zsh), client.GenFishCompletion(&fish, true)); err != nil {
		return err
	}
	return errors.Join(
		write(root, "usr/share/bash-completion/completions/podstead", bash.String(), public),
		write(root, "usr/share/zsh/vendor-completions/_podstead", zsh.String(), public),
		write(root, "usr/share/fish/vendor_completions.d/podstead.fish", fish.String(), public),
	)
}

// Modes of files. The agent's configuration may hold credentials: headers of a
// manifest URL, a proxy with a password.
const (
	public  os.FileMode = 0o644
	private os.FileMode = 0o600
)

func write(root, path, content string, mode os.FileMode) error {
	path = filepath.Join(root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(content), mode)
}
