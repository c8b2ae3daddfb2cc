package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"regexp"
	"strconv"
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
		signals []os.Signal
		apart   time.Duration // how long after one signal the next comes
		status  int
		took    time.Duration
	}{
		{"fails to start", func(context.Context) error { return errors.New("locked") }, nil, 0, exitFailed, 0},
		{"stops", stopsIn(time.Second, nil), []os.Signal{syscall.SIGTERM}, 0, exitOK, time.Second},
		{"stops badly", stopsIn(time.Second, errors.New("disk full")), []os.Signal{syscall.SIGTERM}, 0, exitFailed, time.Second},
		{"hangs", stopsIn(time.Minute, nil), []os.Signal{syscall.SIGHUP}, 0, exitFailed, stopLimit},
		{"second signal", stopsIn(time.Minute, nil), []os.Signal{syscall.SIGINT, syscall.SIGINT}, 100 * time.Millisecond, 130, 100 * time.Millisecond},
		{"second signal, another one", stopsIn(time.Minute, nil), []os.Signal{syscall.SIGINT, syscall.SIGTERM}, 100 * time.Millisecond, 143, 100 * time.Millisecond},
		// A closing terminal, a supervisor and a Ctrl-C to the whole group each
		// tell the same thing several times.
		{"the same wish twice", stopsIn(time.Second, nil), []os.Signal{syscall.SIGTERM, syscall.SIGTERM}, time.Millisecond, exitOK, time.Second},
		{"the same wish by two signals at once", stopsIn(time.Second, nil), []os.Signal{syscall.SIGHUP, syscall.SIGTERM}, 0, exitOK, time.Second},
		{"the same wish, then another", stopsIn(time.Minute, nil), []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGINT}, 30 * time.Millisecond, 130, 60 * time.Millisecond},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				signals := make(chan os.Signal, 2)
				go func() {
					for _, s := range test.signals {
						signals <- s
						time.Sleep(test.apart)
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

// Go exits as 2 after a panic and after SIGABRT, which systemd's watchdog sends:
// the unit must not take that for a wrong configuration, after which it does not
// start the agent again.
func TestConfigStatusIsNoCrash(t *testing.T) {
	unit, err := os.ReadFile("../../scripts/packaging/podsteadd.service")
	if err != nil {
		t.Fatal(err)
	}
	match := regexp.MustCompile(`(?m)^RestartPreventExitStatus=(.*)$`).FindSubmatch(unit)
	if match == nil || string(match[1]) != strconv.Itoa(exitConfig) || exitConfig == 2 {
		t.Errorf("the unit has %q, the status is %d", match, exitConfig)
	}
}
