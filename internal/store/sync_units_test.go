package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
)

// TestUnitsAreSyncedAsTheWholeIs: a source that tells of changed units only ends
// up with what one has that tells of everything, whatever another source wants.
func TestUnitsAreSyncedAsTheWholeIs(t *testing.T) {
	for seed := range uint64(20) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(seed, 0))
			whole, _ := newStore(t)
			parts, _ := newStore(t)
			units := map[string]pod.SourceSet{}
			full := func() (all pod.SourceSet) {
				for _, name := range slices.Sorted(maps.Keys(units)) {
					all.Pods = append(all.Pods, units[name].Pods...)
					all.Rejections = append(all.Rejections, units[name].Rejections...)
					all.Incomplete = append(all.Incomplete, units[name].Incomplete...)
				}
				return all
			}
			mustSync(t, parts, dirA, full())
			for range 25 {
				if rnd.IntN(4) == 0 { // the other source takes and leaves names
					var other []pod.Submission
					for _, name := range []string{"u0-0", "u2-1"} {
						if rnd.IntN(2) == 0 {
							other = append(other, in("other.yaml", submission(name)))
						}
					}
					mustSync(t, whole, dirB, set(other...))
					mustSync(t, parts, dirB, set(other...))
				}
				changed := pod.SourceSet{Units: []string{}}
				for i := range 4 {
					if rnd.IntN(3) > 0 {
						continue
					}
					name := fmt.Sprintf("u%d.yaml", i)
					units[name] = someUnit(rnd, i, name)
					changed.Units = append(changed.Units, name)
					changed.Pods = append(changed.Pods, units[name].Pods...)
					changed.Rejections = append(changed.Rejections, units[name].Rejections...)
					changed.Incomplete = append(changed.Incomplete, units[name].Incomplete...)
				}
				mustSync(t, whole, dirA, full())
				mustSync(t, parts, dirA, changed)
				if a, b := wants(t, whole), wants(t, parts); !slices.Equal(a, b) {
					t.Fatalf("told of everything, it wants\n%q\ntold of %v, it wants\n%q", a, changed.Units, b)
				}
			}
		})
	}
}

func someUnit(rnd *rand.Rand, i int, name string) (s pod.SourceSet) {
	if rnd.IntN(5) == 0 {
		return pod.SourceSet{
			Incomplete: []string{name},
			Rejections: []pod.Rejection{{Unit: name, Place: name, Reason: pod.RejectedSyntax, Errors: []pod.FieldError{{Message: "broken"}}}},
		}
	}
	for j := range 3 {
		if rnd.IntN(3) > 0 {
			s.Pods = append(s.Pods, in(name, submission(fmt.Sprintf("u%d-%d", i, j), withImage("main", fmt.Sprintf("v%d", rnd.IntN(2))))))
		}
	}
	return s
}

// wants is who wants which manifest under which name, and who waits or is refused.
func wants(t *testing.T, s *Store) (rows []string) {
	t.Helper()
	err := s.Read(t.Context(), func(tx *ReadTx) error {
		return tx.Select(&rows, `SELECT namespace || '/' || name || ' ' || source || ' ' || unit || ' ' || manifest_hash FROM desired_pods WHERE deletion_requested_at IS NULL
			UNION ALL SELECT 'refused ' || source || ' ' || unit || ' ' || pod || ' ' || reason || ' ' || manifest_hash FROM rejections ORDER BY 1`)
	})
	if err != nil {
		t.Fatal(err)
	}
	return rows
}

// TestSyncOfOneUnitIsNotOfAll: what the set does not speak of is not read.
func TestSyncOfOneUnitIsNotOfAll(t *testing.T) {
	s, c := newStore(t)
	var all []pod.Submission
	for i := range 50 {
		all = append(all, submission(fmt.Sprintf("p%d", i)))
	}
	mustSync(t, s, dirA, set(all...))
	c.advance(time.Second)
	edited := submission("p7", withImage("main", "nginx"))
	r := mustSync(t, s, dirA, pod.SourceSet{Units: []string{"p7.yaml", "p8.yaml"}, Pods: []pod.Submission{edited}, Gone: []string{"p8.yaml"}})
	if d := load(t, s, "p8").Desired.Deletion; d == nil || d.Detail != "p8.yaml was removed" {
		t.Errorf("removed with %+v", d)
	}
	if len(r.Updated) != 1 || len(r.Removed) != 1 || r.Removed[0] != key("p8") || len(r.Created)+len(r.Unchanged) > 0 {
		t.Fatalf("synced as %+v", r)
	}
}

// TestUnitsAloneDoNotSync: who told of some units may have others to tell of.
func TestUnitsAloneDoNotSync(t *testing.T) {
	s, _ := newStore(t)
	mustSync(t, s, dirA, pod.SourceSet{Units: []string{"web.yaml"}, Pods: []pod.Submission{submission("web")}})
	synced := func() (yes bool) {
		t.Helper()
		if err := s.Read(t.Context(), func(tx *ReadTx) error { return tx.Get(&yes, `SELECT synced FROM sources WHERE id = ?`, dirA.ID) }); err != nil {
			t.Fatal(err)
		}
		return yes
	}
	if synced() {
		t.Error("some units made the source a synced one")
	}
	mustSync(t, s, dirA, set(submission("web")))
	if !synced() {
		t.Error("a whole set did not")
	}
}
