package e2e

import (
	"fmt"
	"strings"
	"time"
)

// moment is when a blow falls: at a step, or so long after the operation began.
type moment struct {
	step          // no kind: any
	order int     // without a kind, the how many-eth step it is, from 1; 0: by the clock
	share float64 // of a call: 0 before Podman has it, 1 after Podman has answered
	after time.Duration
}

// at says whether this is the step, which is the how many-eth.
func (m moment) at(s step, order int) bool {
	if m.kind == "" {
		return m.order == order
	}
	return m.kind == s.kind && m.nth == s.nth
}

func (m moment) String() string {
	place := fmt.Sprintf("%s #%d", m.kind, m.nth)
	switch {
	case m.kind == "" && m.order > 0:
		place = fmt.Sprintf("step %d of its recovery", m.order)
	case m.kind == "":
		return fmt.Sprintf("after %s", m.after.Round(time.Millisecond))
	case m.took < 0:
		return "at " + place
	}
	switch {
	case m.share <= 0:
		return "before " + place
	case m.share < 1:
		return "during " + place
	}
	return "after " + place
}

// spread picks n moments: six tenths at calls, spread over all of them and over
// before, during and after; two tenths at writes, spread over all; the rest by the
// clock.
func spread(steps []step, takes time.Duration, n int) []moment {
	shares := []float64{0, 0.5, 1}
	var calls, writes []step
	for _, s := range steps {
		if strings.HasPrefix(s.kind, writeKind) {
			writes = append(writes, s)
		} else {
			calls = append(calls, s)
		}
	}
	var all []moment
	atCalls, atWrites := (n*6+9)/10, (n*2+5)/10
	for i := range min(atCalls, n*len(calls)) {
		m := moment{step: calls[i*len(calls)/atCalls], share: shares[i%len(shares)]}
		if m.took < 0 {
			m.share = 0 // its end was not seen
		}
		all = append(all, m)
	}
	for i := range min(atWrites, n*len(writes)) {
		all = append(all, moment{step: writes[i*len(writes)/atWrites]})
	}
	for left := n - len(all); len(all) < n; {
		all = append(all, moment{after: takes * time.Duration(2*(n-len(all))-1) / time.Duration(2*left)})
	}
	return all
}

// again is the second moment of the nth double blow of n: a step of the recovery.
func again(i int) moment {
	return moment{order: 1 + i*2, share: []float64{0, 1}[i%2]}
}
