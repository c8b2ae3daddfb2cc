// Command podstead is the client of the agent, podsteadd.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"podstead.io/podstead/internal/cli"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, cli.Env{
		Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		Getenv: os.Getenv, Now: time.Now,
	}, os.Args[1:])
	stop()
	os.Exit(code)
}
