package introspect

import (
	"context"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// memoryCheck is how often the process's memory is looked at during a query.
// SQLite's own accounting is compiled out of the driver, and would count the
// store's connections too.
const memoryCheck = 10 * time.Millisecond

// watchMemory returns a context that ends with errMemory when the process has
// grown by the limit, and a function that ends the watch.
func watchMemory(ctx context.Context, limit int64) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(ctx)
	before := resident()
	var done sync.WaitGroup
	done.Go(func() {
		tick := time.NewTicker(memoryCheck)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				if resident()-before > limit {
					cancel(errMemory)
					return
				}
			}
		}
	})
	return ctx, func() {
		cancel(nil)
		done.Wait()
	}
}

// resident is the memory of this process in bytes, from proc(5); 0 if it can't
// be read.
func resident() int64 {
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil {
		return 0
	}
	return pages * int64(os.Getpagesize())
}
