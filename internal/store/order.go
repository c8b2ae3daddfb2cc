package store

import "time"

// order says which report of the runtime came first. It goes by the monotonic
// clock of this process: the wall clock may be set back, and with it the times
// that Podman notes. It is in memory only, since no report outlives the process
// that asked for it. The writer's turn guards it.
type order struct {
	now  func() time.Time
	rows map[string]moment // by the ID of a sandbox or container
	// graves are the IDs of things that were removed, and when that was learnt,
	// so that an answer from before does not bring them back.
	graves  map[string]time.Time
	byDeath []string
}

// moment is when what a row says was asked for, and when it was last changed.
type moment struct{ asked, changed time.Time }

const maxGraves = 2048

func newOrder() order {
	return order{now: time.Now, rows: map[string]moment{}, graves: map[string]time.Time{}}
}

// buried reports whether the thing was found gone after the runtime was asked.
func (o *order) buried(id string, asked time.Time) bool {
	at, ok := o.graves[id]
	return ok && !asked.After(at)
}

func (o *order) bury(id string, at time.Time) {
	delete(o.rows, id)
	if _, again := o.graves[id]; !again {
		o.byDeath = append(o.byDeath, id)
	}
	o.graves[id] = at
	if len(o.byDeath) > maxGraves {
		delete(o.graves, o.byDeath[0])
		o.byDeath = o.byDeath[1:]
	}
}

// note keeps when a report was asked for that was taken, and, if it changed the
// row, that it did so just now.
func (o *order) note(id string, asked time.Time, changed bool) {
	m := o.rows[id]
	if asked.After(m.asked) {
		m.asked = asked
	}
	if changed {
		m.changed = o.now()
	}
	o.rows[id] = m
}
