package simulate

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain leaves the scheduler one processor: what is ready at one moment then
// runs in the same order every time, as far as the runtime has an order.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(1)
	goleak.VerifyTestMain(m)
}

// The flags of scripts/simulate.
var (
	firstSeed = flag.Uint64("first", 1, "first seed")
	seeds     = flag.Uint64("seeds", always, "how many seeds")
	traced    = flag.Bool("trace", false, "print the plan and what happened")
	shrunk    = flag.Bool("shrink", false, "print the fewest steps that still fail")
	figures   = flag.String("figures", "", "file to append the figures to, as JSON")
)

func TestSeeds(t *testing.T) {
	var total stats
	for seed := *firstSeed; seed < *firstSeed+*seeds; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			p := generate(seed)
			r := simulate(t, p)
			total.add(r.stats)
			if *traced {
				t.Logf("%s%s", p, r.trace)
			}
			if len(r.found) == 0 {
				return
			}
			total.Failed = append(total.Failed, seed)
			t.Errorf("scripts/simulate -seed %d -v replays it\n    %s", seed, r)
			if *shrunk {
				p = shrink(t, p, r.found[0].kind)
				r = simulate(t, p)
				t.Logf("the fewest steps that still fail:\n%s%s", p, r.trace)
			}
		})
	}
	if *figures != "" {
		total.write(t, *figures)
	}
}

// pinned are seeds beyond those that are always tried that once showed a fault
// of the agent.
var pinned = []uint64{
	318, 335, 394, 400, 403, // two of one at a time; a restart that is recorded twice; holds of what ran
	453, 701, 4010, // what was made for a lost version of a pod passed for the wanted one
	6737, 13108, // what was learnt while the disk was full was lost
	3289,             // the health of a run that the agent ended did not count
	275, 9181, 10742, // a restart that was not on record, a recreate without a cause
	6237, // an attempt that Podman called created, though it had run, started late beside its successor
}

func TestPinned(t *testing.T) {
	for _, seed := range pinned {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			if r := simulate(t, generate(seed)); len(r.found) > 0 {
				t.Errorf("scripts/simulate -seed %d -v replays it\n    %s", seed, r)
			}
		})
	}
}

func (r report) String() string {
	var texts []string
	for _, f := range r.found {
		texts = append(texts, f.text)
	}
	return strings.Join(texts, "\n    ")
}

// The same seed gives the same plan, and goes the same way. The runtime of Go
// chooses at random between channels that are ready and in which order a map is
// gone over, so that one in many differs somewhere.
func TestReplay(t *testing.T) {
	var differ []string
	for seed := range uint64(replays) {
		p := generate(seed)
		if again := generate(seed); p.String() != again.String() {
			t.Fatalf("seed %d gives two plans", seed)
		}
		a, b := simulate(t, p).trace.sorted(), simulate(t, p).trace.sorted()
		if !slices.Equal(a, b) {
			differ = append(differ, fmt.Sprintf("seed %d: %s", seed, firstDifference(a, b)))
		}
	}
	if len(differ) > replays/5 {
		t.Errorf("%d of %d seeds go two ways:\n%s", len(differ), replays, strings.Join(differ, "\n"))
	}
}

func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return a[i] + "\n" + b[i]
		}
	}
	return "one is longer"
}

// shrink leaves out step after step as long as the rest still fails in the same
// way.
func shrink(t *testing.T, p plan, kind string) plan {
	t.Helper()
	fails := func(p plan) bool {
		return slices.ContainsFunc(simulate(t, p).found, func(f finding) bool { return f.kind == kind })
	}
	for size := len(p.Steps) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(p.Steps); {
			fewer := p
			fewer.Steps = slices.Delete(slices.Clone(p.Steps), from, from+size)
			if from+size < len(p.Steps) { // when things happen stays the same
				var gap time.Duration
				for _, s := range p.Steps[from : from+size] {
					gap += s.After
				}
				fewer.Steps[from].After += gap
			}
			if fails(fewer) {
				p = fewer
			} else {
				from += size
			}
		}
	}
	return p
}

func (s *stats) write(t *testing.T, path string) {
	t.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		t.Fatal(err)
	}
	s.CPU = time.Duration(used.Utime.Nano() + used.Stime.Nano())
	line, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintln(f, string(line)); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// stats are figures of one simulation, or of many.
type stats struct {
	Seeds      int
	Failed     []uint64
	Simulated  time.Duration
	Steps      int
	Acts       map[act]int // how often each was done
	Lives      int         // of agents
	Points     int         // at which an agent could have been killed
	Commits    int         // that wrote
	Containers int         // processes that ran
	Events     int         // of the runtime
	CPU        time.Duration
}

func (s *stats) add(o stats) {
	s.Seeds += o.Seeds
	s.Simulated += o.Simulated
	s.Steps += o.Steps
	s.Lives += o.Lives
	s.Points += o.Points
	s.Commits += o.Commits
	s.Containers += o.Containers
	s.Events += o.Events
	if s.Acts == nil {
		s.Acts = map[act]int{}
	}
	for a, n := range o.Acts {
		s.Acts[a] += n
	}
}
