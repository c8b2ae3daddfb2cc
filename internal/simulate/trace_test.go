package simulate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"podstead.io/podstead/internal/pod"
)

// trace is what happened, in order.
type trace struct {
	begun time.Time
	mu    sync.Mutex
	lines []line
}

type line struct {
	at               time.Duration
	who, what, extra string
}

func (t *trace) add(who, what, extra string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, line{time.Since(t.begun), who, what, extra})
}

func (t *trace) call(what string, begun time.Time, err error) {
	extra := "took " + time.Since(begun).String()
	if err != nil {
		extra = fmt.Sprintf("%s, %s", extra, pod.ClassOf(err))
	}
	t.add("call", what, extra)
}

func (l line) String() string { return fmt.Sprintf("%14s  %-7s %s  %s", l.at, l.who, l.what, l.extra) }

func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	var b strings.Builder
	for _, l := range t.lines {
		fmt.Fprintln(&b, l)
	}
	return b.String()
}

// sorted has what happened at one moment in an order of its own: when an agent
// is killed, its calls end at once.
func (t *trace) sorted() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	lines := slices.Clone(t.lines)
	slices.SortStableFunc(lines, func(a, b line) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.String(), b.String()))
	})
	out := make([]string, len(lines))
	for i, l := range lines {
		out[i] = l.String()
	}
	return out
}
