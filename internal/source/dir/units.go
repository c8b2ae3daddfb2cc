package dir

import (
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"podstead.io/podstead/internal/pod"
)

// absence is a file that is not there any more, or not at the moment.
type absence struct {
	since    time.Time
	unlinked bool
}

// Times for which a file must be missing before its pods are given up.
const (
	// goneTime is for files that were moved away, or that vanished unseen.
	// Editors move the old file away before they write the new one: believing
	// that at once would restart the pods.
	goneTime = 100 * time.Millisecond
	// unlinkTime is for files that were deleted, since the last one was: what
	// deletes a file to write it anew (git, install, tar) does so at once, and
	// what deletes the whole directory goes from file to file.
	unlinkTime = 20 * time.Millisecond
)

// left is how much longer the absence must last; vanished is when a file of the
// directory was last found missing.
func (a absence) left(vanished, now time.Time) time.Duration {
	if a.unlinked {
		return unlinkTime - now.Sub(vanished)
	}
	return goneTime - now.Sub(a.since)
}

// miss gives a unit up once its file has been missing for long enough.
func (r *reader) miss(name string, unlinked bool) {
	u, now := r.units[name], r.now()
	if u.absence == nil {
		u.absence = &absence{since: now}
		r.restless[name] = true
		r.vanished = now
	}
	u.absence.unlinked = u.absence.unlinked || unlinked
	if u.doubtful {
		return // settleDoubt decides
	}
	if left := u.absence.left(r.vanished, now); left > 0 {
		r.found.lookAgain(left)
		return
	}
	r.drop(name)
}

func (r *reader) drop(name string) {
	r.hold(name, r.units[name], pod.SourceSet{})
	delete(r.units, name)
	delete(r.restless, name)
	r.gone = append(r.gone, unitName(name))
}

// hold counts who holds which pods when a unit's set is replaced. When another
// unit holds one of them, only the whole of the source says what that means.
func (r *reader) hold(name string, u *unit, set pod.SourceSet) {
	var keys []pod.Key
	if len(set.Incomplete) > 0 {
		keys = slices.Clone(u.keys) // the sink keeps them
	}
	for _, s := range set.Pods {
		if !slices.Contains(keys, s.Key()) {
			keys = append(keys, s.Key())
		}
	}
	for _, key := range u.keys {
		if r.holders[key]--; r.holders[key] == 0 {
			delete(r.holders, key)
		}
	}
	others := func(key pod.Key) bool { return r.holders[key] > 0 }
	r.found.whole = r.found.whole || slices.ContainsFunc(u.keys, others) || slices.ContainsFunc(keys, others) ||
		!utf8.ValidString(name) // its unit's name may be another's too
	for _, key := range keys {
		r.holders[key]++
	}
	u.keys = keys
	r.found.changed = append(r.found.changed, name)
}

// all is what the source wants. Of a directory that is not trusted yet it says
// only what the known files want.
func (r *reader) all() pod.SourceSet {
	set := r.merge(slices.Sorted(maps.Keys(r.units)))
	if !r.root.trusted {
		set.Units = make([]string, 0, len(r.units))
		for _, name := range slices.Sorted(maps.Keys(r.units)) {
			set.Units = append(set.Units, unitName(name))
		}
	}
	return set
}

// some is what the named files want.
func (r *reader) some(names []string) pod.SourceSet {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	set := r.merge(names)
	for _, name := range names {
		set.Units = append(set.Units, unitName(name))
	}
	return set
}

// merge is the sets of some files. Of two pods with one name the sink decides:
// the file that had it keeps it. A file that is missing loses it at once to
// another, so that renaming one is no conflict.
func (r *reader) merge(names []string) pod.SourceSet {
	held := map[pod.Key]bool{}
	for _, name := range names {
		if u := r.units[name]; u != nil && u.absence == nil {
			for _, s := range u.set.Pods {
				held[s.Key()] = true
			}
		}
	}
	all := pod.SourceSet{Gone: r.gone}
	for _, name := range names {
		u := r.units[name]
		if u == nil {
			continue
		}
		for _, s := range u.set.Pods {
			if u.absence == nil || !held[s.Key()] {
				all.Pods = append(all.Pods, s)
			}
		}
		all.Rejections = append(all.Rejections, u.set.Rejections...)
		all.Incomplete = append(all.Incomplete, u.set.Incomplete...)
	}
	return all
}
