package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// The exit statuses. A second signal gives 128 plus its number, as shells do.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
	exitSignal = 128
)

// stopLimit is how long the agent may take to stop. It promises 2 s; one that
// takes longer is ended in the middle, which is no worse than a power cut.
const stopLimit = 1900 * time.Millisecond

// untilStopped runs the agent until it ends by itself or a signal comes, and
// returns the exit status. Its context is the root of all others.
func untilStopped(signals <-chan os.Signal, log *slog.Logger, run func(context.Context) error) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	var overdue <-chan time.Time // nil while nobody asked to stop
	for {
		select {
		case err := <-done:
			if err != nil {
				log.Error("podsteadd ends", "error", err)
				return exitFailed
			}
			log.Info("podsteadd has stopped; containers go on")
			return exitOK
		case s := <-signals:
			if overdue != nil {
				log.Warn("podsteadd ends at once", "signal", s.String())
				return exitSignal + number(s)
			}
			log.Info("podsteadd stops", "signal", s.String())
			cancel(fmt.Errorf("signal: %s", s))
			overdue = time.After(stopLimit)
		case <-overdue:
			log.Error("podsteadd did not stop in time and ends at once", "limit", stopLimit)
			return exitFailed
		}
	}
}

func number(s os.Signal) int {
	n, _ := s.(syscall.Signal) // every signal of this system is one
	return int(n)
}
