// Command podsteadd is the agent: it reads its configuration, runs internal/app
// until a signal comes, and says by its exit status how that went. See
// `podsteadd --help` for both.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"podstead.io/podstead/internal/app"
	"podstead.io/podstead/internal/config"
	"podstead.io/podstead/internal/version"
)

// gcPercent collects garbage twice as often as Go does by default: an agent that
// rests costs a third less memory, and one that works a little more time.
const gcPercent = 50

func main() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	os.Exit(start(os.Args[1:], os.Stdout, os.Stderr))
}

// start returns the exit status.
func start(args []string, stdout, stderr io.Writer) int {
	cfg, err := config.Parse(args, os.Getenv)
	switch {
	case errors.Is(err, config.ErrHelp):
		return say(stdout, config.Usage(), exitOK)
	case errors.Is(err, config.ErrVersion):
		return say(stdout, "podsteadd "+version.Get().String()+"\n", exitOK)
	case err != nil:
		return say(stderr, fmt.Sprintf("podsteadd: the configuration is wrong:\n%v\n", err), exitConfig)
	}
	log := newLogger(cfg, stderr)
	log.Info("podsteadd starts", "version", version.Get().String(), "pid", os.Getpid())

	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
	return untilStopped(signals, log, func(ctx context.Context) error { return app.Run(ctx, cfg, log) })
}

// say writes and returns the status; output that nobody reads changes nothing.
func say(w io.Writer, text string, status int) int {
	_, _ = io.WriteString(w, text)
	return status
}
