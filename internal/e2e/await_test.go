package e2e

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

const (
	// patience is how long anything may take on a machine that is busy with other
	// tests. A wait ends as soon as what it waits for holds.
	patience = 90 * time.Second
	// pollEvery is the time between two looks.
	pollEvery = 100 * time.Millisecond
)

// hopeless is an error that waiting will not mend.
type hopeless struct{ error }

// eventually looks until check finds nothing wrong.
func eventually(t *testing.T, what string, check func() error) {
	t.Helper()
	within(t, patience, what, check)
}

func within(t *testing.T, limit time.Duration, what string, check func() error) {
	t.Helper()
	if err := await(limit, check); err != nil {
		t.Fatalf("waited in vain until %s: %v", what, err)
	}
}

// await looks until check finds nothing wrong, and returns what it finds wrong in
// the end.
func await(limit time.Duration, check func() error) error {
	for deadline := time.Now().Add(limit); ; time.Sleep(pollEvery) {
		err := check()
		var never hopeless
		if err == nil || errors.As(err, &never) || time.Now().After(deadline) {
			return err
		}
	}
}

// always looks for as long as given, and fails at the first look that finds
// something wrong. It is for what must not happen.
func always(t *testing.T, during time.Duration, what string, check func() error) {
	t.Helper()
	for end := time.Now().Add(during); time.Now().Before(end); time.Sleep(pollEvery) {
		if err := check(); err != nil {
			t.Fatalf("it does not hold that %s: %v", what, err)
		}
	}
}

// unless is an error in these words unless ok.
func unless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}
