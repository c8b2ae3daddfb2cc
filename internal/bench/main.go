// Command bench measures Podstead against the same work done without it, in one
// run and in turns, and prints ratios of medians: hosts differ and are noisy, so
// no absolute figure means much. scripts/bench starts the Podman that it uses.
//
// A container says itself that it runs, by writing into a FIFO that the bench
// reads: nothing is polled while the clock runs.
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

// quiet is the pause before each sample: Podman cleans up after the one before
// in processes of its own, which nothing reports the end of.
const quiet = 700 * time.Millisecond

// contender does the same work in one way.
type contender struct {
	name string
	// start makes the pod run, and returns once it has asked for that.
	start func(ctx context.Context, p podFiles) error
	// remove takes it away, and returns once it is gone.
	remove func(ctx context.Context, p podFiles) error
	took   []time.Duration
}

func run(ctx context.Context) error {
	url := flag.String("podman-url", "", "unix:// URL of the Podman service to use")
	dir := flag.String("dir", "", "directory for manifests, FIFOs and the agent's state")
	agentBinary := flag.String("agent", "bin/podsteadd", "the agent to measure")
	samples := flag.Int("n", 11, "samples of each contender")
	flag.Parse()
	if *url == "" || *dir == "" {
		return errors.New("give --podman-url and --dir")
	}
	raw := newRawPodman(strings.TrimPrefix(*url, "unix://"))
	agent, err := startAgent(ctx, *agentBinary, *dir, *url)
	if err != nil {
		return err
	}
	defer agent.stop()
	contenders := []*contender{
		{name: "podstead", start: agent.start, remove: agent.remove},
		{name: "raw API", start: raw.start, remove: raw.remove},
		{name: "kube play", start: kubePlay, remove: kubeDown},
	}
	for i := range *samples + 1 {
		for _, c := range contenders {
			p, err := newPodFiles(filepath.Join(*dir, "pods"), fmt.Sprintf("bench-%d-%s", i, strings.ReplaceAll(c.name, " ", "-")))
			if err != nil {
				return err
			}
			took, err := c.sample(ctx, p)
			if err != nil {
				return fmt.Errorf("%s, sample %d: %w", c.name, i, err)
			}
			if i > 0 { // the first one warms up
				c.took = append(c.took, took)
			}
		}
	}
	report(contenders)
	return nil
}

// sample is the time from asking for a pod to both its containers running.
func (c *contender) sample(ctx context.Context, p podFiles) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	time.Sleep(quiet)
	running := p.running(ctx)
	began := time.Now()
	if err := c.start(ctx, p); err != nil {
		return 0, err
	}
	if err := <-running; err != nil {
		return 0, err
	}
	took := time.Since(began)
	return took, c.remove(ctx, p)
}

func report(contenders []*contender) {
	ours := median(contenders[0].took)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "what\tpodstead\tagainst\tmedian\tratio\taim")
	aims := map[string]string{"raw API": "≤ 1.10", "kube play": "≤ 1.00"}
	for _, c := range contenders[1:] {
		fmt.Fprintf(w, "two-container pod, manifest written → both running\t%d ms\t%s\t%d ms\t%.2f\t%s\n",
			ours.Milliseconds(), c.name, median(c.took).Milliseconds(), float64(ours)/float64(median(c.took)), aims[c.name])
	}
	w.Flush()
	for _, c := range contenders {
		fmt.Printf("%s: %d samples, %d–%d ms\n", c.name, len(c.took), slices.Min(c.took).Milliseconds(), slices.Max(c.took).Milliseconds())
	}
}

func median(d []time.Duration) time.Duration {
	s := slices.Sorted(slices.Values(d))
	return s[len(s)/2]
}
