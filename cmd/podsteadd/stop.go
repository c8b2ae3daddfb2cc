package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// The exit statuses. A second signal gives 128 plus its number, as shells do. What
// starting again won't mend is told from a panic, with which Go exits as 2:
// systemd has to start the agent again after that one only.
const (
	exitOK     = 0
	exitFailed = 1
	exitConfig = 78 // EX_CONFIG of sysexits.h
	exitSignal = 128
)

// stopLimit is how long the agent may take to stop. It promises 2 s; one that
// takes longer is ended in the middle, which is no worse than a power cut.
const stopLimit = 1900 * time.Millisecond

// sameWish is how long after a signal others only repeat it: a terminal that
// closes, a supervisor and a Ctrl-C to a whole group say it several times at
// once. Nobody presses a key twice as fast.
const sameWish = 50 * time.Millisecond

// untilStopped runs the agent until it ends by itself or a signal comes, and
// returns the exit status. Its context is the root of all others.
func untilStopped(signals <-chan os.Signal, log *slog.Logger, run func(context.Context) error) int {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	done := make(chan error, 1)
	go func() { done <- run(ctx) }()
	var asked time.Time          // zero while nobody asked to stop
	var overdue <-chan time.Time // likewise nil
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
			switch {
			case asked.IsZero():
				log.Info("podsteadd stops", "signal", s.String())
				cancel(fmt.Errorf("signal: %s", s))
				asked, overdue = time.Now(), time.After(stopLimit)
			case time.Since(asked) >= sameWish:
				log.Warn("podsteadd ends at once", "signal", s.String())
				return exitSignal + number(s)
			}
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
