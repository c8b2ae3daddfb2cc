package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntilStopped(t *testing.T) {
	stopsIn := func(d time.Duration, err error) func(context.Context) error {
		return func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(d)
			return err
		}
	}
	tests := []struct {
		name    string
		run     func(context.Context) error
		signals []os.Signal // one each 100 ms
		status  int
		took    time.Duration
	}{
		{"fails to start", func(context.Context) error { return errors.New("locked") }, nil, exitFailed, 0},
		{"stops", stopsIn(time.Second, nil), []os.Signal{syscall.SIGTERM}, exitOK, time.Second},
		{"stops badly", stopsIn(time.Second, errors.New("disk full")), []os.Signal{syscall.SIGTERM}, exitFailed, time.Second},
		{"hangs", stopsIn(time.Minute, nil), []os.Signal{syscall.SIGHUP}, exitFailed, stopLimit},
		{"second signal", stopsIn(time.Minute, nil), []os.Signal{syscall.SIGINT, syscall.SIGINT}, 130, 100 * time.Millisecond},
		{"second signal, another one", stopsIn(time.Minute, nil), []os.Signal{syscall.SIGINT, syscall.SIGTERM}, 143, 100 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal, 2)
				go func() {
					for _, s := range test.signals {
						signals <- s
						time.Sleep(100 * time.Millisecond)
					}
				}()
				defer time.Sleep(time.Hour) // lets what was left behind end
				began := time.Now()
				status := untilStopped(signals, slog.New(slog.DiscardHandler), test.run)
				if took := time.Since(began); status != test.status || took != test.took {
					t.Errorf("status %d after %s, want %d after %s", status, took, test.status, test.took)
				}
			})
		})
	}
}

// The promise of less than 2 s leaves room for the process to end.
func TestStopLimit(t *testing.T) {
	if stopLimit >= 2*time.Second {
		t.Errorf("the limit is %s", stopLimit)
	}
}
