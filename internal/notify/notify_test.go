package notify

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
)

func TestKeysCoalesce(t *testing.T) {
	var k Keys[string]
	k.Add("a", "b")
	k.Add("a")
	got, err := k.Take(t.Context())
	slices.Sort(got)
	if err != nil || !slices.Equal(got, []string{"a", "b"}) {
		t.Fatalf("Take = %v, %v; want each key once", got, err)
	}
}

func TestTakeWaitsForAKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var k Keys[int]
		taken := make(chan []int, 1)
		go func() {
			keys, _ := k.Take(t.Context())
			taken <- keys
		}()
		synctest.Wait()
		select {
		case keys := <-taken:
			t.Fatalf("Take returned %v from an empty set", keys)
		default:
		}
		k.Add(7)
		if keys := <-taken; !slices.Equal(keys, []int{7}) {
			t.Fatalf("Take = %v; want [7]", keys)
		}
	})
}

func TestTakeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var k Keys[int]
	if _, err := k.Take(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Take = %v; want context.Canceled", err)
	}
}

func TestKeyAddedWhileTakenIsNotLost(t *testing.T) {
	var k Keys[int]
	k.Add(1)
	if _, err := k.Take(t.Context()); err != nil {
		t.Fatal(err)
	}
	k.Add(1)
	if keys, err := k.Take(t.Context()); err != nil || len(keys) != 1 {
		t.Fatalf("Take = %v, %v; want the key again", keys, err)
	}
}
