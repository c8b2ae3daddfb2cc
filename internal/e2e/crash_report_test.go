package e2e

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
)

var (
	kills  = flag.Int("kills", 25, "how often TestCrash kills the agent; other victims are struck in proportion")
	report = flag.String("report", "", "file for the report of TestCrash")
)

// blows are all of this run.
var blows struct {
	sync.Mutex
	all []blow
}

func keep(b blow) {
	blows.Lock()
	defer blows.Unlock()
	blows.all = append(blows.all, b)
}

// writeReport writes a line for each blow and a table that sums them up.
func writeReport(path string) error {
	blows.Lock()
	defer blows.Unlock()
	if path == "" || len(blows.all) == 0 {
		return nil
	}
	slices.SortStableFunc(blows.all, func(a, b blow) int {
		return cmp.Or(cmp.Compare(a.victim, b.victim), cmp.Compare(a.scene, b.scene), cmp.Compare(a.operation, b.operation))
	})
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(file, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "VICTIM\tSCENE\tOPERATION\tAT\tWHAT THERE WAS\tOUTCOME")
	for _, b := range blows.all {
		_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", b.victim, b.scene, b.operation, b.place(), b.where, b.outcome())
	}
	_ = out.Flush()
	_, _ = fmt.Fprintln(file)
	out.Init(file, 0, 0, 2, ' ', tabwriter.AlignRight)
	_, _ = fmt.Fprintln(out, "BLOWS\tPLACES\tKINDS OF STEP\tSTRUCK\tDUPLICATES\tLOSSES\tNEEDLESS RESTARTS\t  WHOM, IN WHAT")
	for _, s := range sums() {
		_, _ = fmt.Fprintf(out, "%d\t%d\t%s\t%d\t%d\t%d\t%d\t  %s\n", s.blows, len(s.places), s.kindsText(), len(s.struck), s.duplicates, s.losses, s.needless, s.name)
	}
	return errors.Join(out.Flush(), file.Close())
}

func (b blow) place() string {
	var said []string
	for _, m := range b.at {
		said = append(said, m.String())
	}
	text := strings.Join(said, ", then ")
	if b.late {
		text += " (not reached: when all was done)"
	}
	return text
}

func (b blow) outcome() string {
	if len(b.said) == 0 {
		return "right"
	}
	return strings.Join(b.said, "; ")
}

// sum counts the blows of one kind. A place is a moment with what there was then.
type sum struct {
	name                                string
	blows, duplicates, losses, needless int
	places                              map[string]bool
	kinds                               int // of step, where all blows are of one operation
	struck                              map[string]bool
}

func (s *sum) kindsText() string {
	if s.kinds == 0 {
		return ""
	}
	return strconv.Itoa(s.kinds)
}

// sums are for each victim and operation, for each victim, and for all.
func sums() []*sum {
	var list []*sum
	add := func(name string, kinds int, b blow) {
		i := slices.IndexFunc(list, func(s *sum) bool { return s.name == name })
		if i < 0 {
			list = append(list, &sum{name: name, kinds: kinds, places: map[string]bool{}, struck: map[string]bool{}})
			i = len(list) - 1
		}
		s := list[i]
		s.blows++
		s.duplicates += b.duplicates
		s.losses += b.losses
		s.needless += b.needless
		if kind := b.at[0].kind; kind != "" && !b.late {
			s.struck[kind] = true
		}
		s.places[b.operation+b.place()+b.where] = true
	}
	for _, b := range blows.all {
		add(fmt.Sprintf("%s, %s: %s", b.victim, b.scene, b.operation), b.kinds, b)
	}
	for _, b := range blows.all {
		add(b.victim, 0, b)
	}
	for _, b := range blows.all {
		add("all", 0, b)
	}
	return list
}
