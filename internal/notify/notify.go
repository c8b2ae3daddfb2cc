// Package notify carries wake-ups. A wake-up says that something about a key
// changed and nothing more: the receiver reads the truth itself, so any number
// of them for one key are one. The package owns no goroutine.
package notify

import (
	"context"
	"sync"
)

// Keys is a set of keys that want attention. The zero value is ready to use,
// by any number of goroutines; one of them takes.
type Keys[K comparable] struct {
	mu   sync.Mutex
	set  map[K]struct{}
	bell chan struct{}
}

func (k *Keys[K]) init() {
	if k.bell == nil {
		k.bell = make(chan struct{}, 1)
		k.set = map[K]struct{}{}
	}
}

// Add puts keys into the set. It never blocks.
func (k *Keys[K]) Add(keys ...K) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.init()
	for _, key := range keys {
		k.set[key] = struct{}{}
	}
	if len(k.set) > 0 {
		select {
		case k.bell <- struct{}{}:
		default:
		}
	}
}

// Take empties the set, waiting until there is something in it. The order of
// the keys means nothing. The error is the context's.
func (k *Keys[K]) Take(ctx context.Context) ([]K, error) {
	k.mu.Lock()
	k.init()
	k.mu.Unlock()
	for {
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-k.bell:
		}
		k.mu.Lock()
		keys := make([]K, 0, len(k.set))
		for key := range k.set {
			keys = append(keys, key)
		}
		clear(k.set)
		k.mu.Unlock()
		if len(keys) > 0 {
			return keys, nil
		}
	}
}
