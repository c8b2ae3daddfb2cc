// Command bench measures Podstead against the same work done without it, in one
// run and in turns, and prints ratios of medians: hosts differ and are noisy, so
// no absolute figure means much. scripts/bench starts the Podman that it uses.
//
// A container says itself that it runs, by writing into a FIFO that the bench
// reads.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt)
	defer cancel()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// row is one line of the table.
type row struct {
	what, ours, against string
	value               float64
	unit                string // of value; empty: it is a ratio
	aim                 float64
	spread              string
}

func (r row) met() string {
	if r.value <= r.aim {
		return "yes"
	}
	return "no"
}

// bench is what the measurements share.
type bench struct {
	dir     string
	samples int
	pods    int // that run while the agent rests or is started again
	raw     *rawPodman
	agent   *agent
	serial  int
}

func run(ctx context.Context) error {
	podmanURL := flag.String("podman-url", "", "unix:// URL of the Podman service to use")
	dir := flag.String("dir", "", "directory for manifests, FIFOs and the agent's state")
	agentBinary := flag.String("agent", "bin/podsteadd", "the agent to measure")
	samples := flag.Int("n", 11, "samples of each contender; bursts and agent restarts take a third of it")
	pods := flag.Int("pods", 30, "pods of a burst, and that run while the agent rests or is started again")
	only := flag.String("only", "", "comma-separated measurements to take: "+strings.Join(measurements(), ", ")+" (default all)")
	flag.Parse()
	if *podmanURL == "" || *dir == "" {
		return errors.New("give --podman-url and --dir")
	}
	wanted, err := selected(*only)
	if err != nil {
		return err
	}
	b := &bench{
		dir: *dir, samples: *samples, pods: *pods,
		raw:   newRawPodman(strings.TrimPrefix(*podmanURL, "unix://")),
		agent: newAgent(*agentBinary, *dir, *podmanURL),
	}
	if err := b.agent.run(ctx); err != nil {
		return err
	}
	defer b.agent.end()
	var rows []row
	for _, m := range wanted {
		fmt.Fprintf(os.Stderr, "measuring: %s\n", m.name)
		found, err := m.take(ctx, b)
		rows = append(rows, found...)
		if err != nil {
			return errors.Join(fmt.Errorf("%s: %w", m.name, err), print(rows))
		}
	}
	return print(rows)
}

type measurement struct {
	name string
	take func(context.Context, *bench) ([]row, error)
}

// all is in the order of the table.
var all = []measurement{
	{"start", measureStart},
	{"remove", measureRemove},
	{"burst", measureBurst},
	{"replace", measureReplace},
	{"restart", measureRestart},
	{"rest", measureRest},
	{"scale", measureScale},
}

func measurements() (names []string) {
	for _, m := range all {
		names = append(names, m.name)
	}
	return names
}

func selected(only string) ([]measurement, error) {
	if only == "" {
		return all, nil
	}
	var wanted []measurement
	for name := range strings.SplitSeq(only, ",") {
		i := slices.IndexFunc(all, func(m measurement) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("--only: there is no measurement %q; there are %s", name, strings.Join(measurements(), ", "))
		}
		wanted = append(wanted, all[i])
	}
	return wanted, nil
}

func print(rows []row) error {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tpodstead\tagainst\tresult\taim\tmet\tsamples")
	for _, r := range rows {
		value, aim := fmt.Sprintf("%.2f", r.value), fmt.Sprintf("≤ %.2f", r.aim)
		if r.unit != "" {
			value, aim = fmt.Sprintf("%.4g%s", r.value, r.unit), fmt.Sprintf("≤ %.4g%s", r.aim, r.unit)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.what, r.ours, r.against, value, aim, r.met(), r.spread)
	}
	return w.Flush()
}

// newPod makes the files of a pod of a name that no other has.
func (b *bench) newPod(containers ...string) (podFiles, error) {
	b.serial++
	return newPodFiles(filepath.Join(b.dir, "pods"), fmt.Sprintf("bench-%d", b.serial), containers...)
}

// quiet is the pause before each sample: Podman cleans up after the one before
// in processes of its own, which nothing reports the end of.
const quiet = 700 * time.Millisecond

// patience bounds one sample.
const patience = 2 * time.Minute

// contender does the same work in one way. A sample takes it once and answers
// how long that took.
type contender struct {
	name   string
	sample func(ctx context.Context) (time.Duration, error)
	took   []time.Duration
}

// race takes samples of the contenders in turns. The first of each warms up.
func race(ctx context.Context, samples int, contenders ...*contender) error {
	for i := range samples + 1 {
		for _, c := range contenders {
			if err := pause(ctx, quiet); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeout(ctx, patience)
			took, err := c.sample(ctx)
			cancel()
			if err != nil {
				return fmt.Errorf("%s, sample %d: %w", c.name, i, err)
			}
			if i > 0 {
				c.took = append(c.took, took)
			}
		}
	}
	return nil
}

// compare is the row of one contender over another.
func compare(what string, aim float64, ours, theirs *contender) row {
	return row{
		what: what, aim: aim, value: float64(median(ours.took)) / float64(median(theirs.took)),
		ours: milliseconds(median(ours.took)), against: theirs.name + " " + milliseconds(median(theirs.took)),
		spread: fmt.Sprintf("%d of %s, %d of %s", len(ours.took), spread(ours.took), len(theirs.took), spread(theirs.took)),
	}
}

func spread(d []time.Duration) string {
	return fmt.Sprintf("%d–%s", slices.Min(d).Milliseconds(), milliseconds(slices.Max(d)))
}

func milliseconds(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	}
	return fmt.Sprintf("%d ms", d.Milliseconds())
}

func median(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[len(s)/2]
}
