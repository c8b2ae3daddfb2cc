package reconcile_test

import (
	"testing"
	"time"

	"podstead.io/podstead/internal/pod"
)

// loseStore has a new agent that finds neither database nor backup.
func (r *rig) loseStore() {
	r.Helper()
	r.stop()
	r.must(r.store.Close())
	r.path += ".new"
	r.openStore()
	r.start()
}

func TestSubmittedPodRunsOnWhenItsDatabaseIsLost(t *testing.T) {
	for name, test := range map[string]func(r *rig, before pod.Container){
		"and is left alone": func(r *rig, before pod.Container) {
			r.pass(time.Hour)
			if live := r.fake.Live(before.UID, ""); len(live) != 1 || live[0].ID != before.ID {
				r.Errorf("live: %+v", live)
			}
		},
		"until it is submitted again": func(r *rig, before pod.Container) {
			if uid := r.submit(podOf("web", "a")); uid != before.UID {
				r.Errorf("it is %s; was %s", uid, before.UID)
			}
			r.pass(time.Minute)
			if a := r.runs(before.UID, "a")["a"]; a.ID != before.ID {
				r.Errorf("it was made anew: %+v", a)
			}
		},
		"until another takes its place": func(r *rig, before pod.Container) {
			p := podOf("web", "a")
			p.Spec.Containers[0].Args = []string{"new"}
			uid := r.submit(p)
			r.pass(time.Minute)
			if a := r.runs(uid, "a")["a"]; a.ID == before.ID || len(r.fake.Sandboxes()) != 1 {
				r.Errorf("live %+v in %+v", a, r.fake.Sandboxes())
			}
		},
		"until it is deleted": func(r *rig, before pod.Container) {
			r.withdraw("web", nil)
			r.pass(time.Minute)
			r.gone(before.UID)
		},
	} {
		t.Run(name, func(t *testing.T) {
			observed(t, func(r *rig) {
				uid := r.submit(podOf("web", "a"))
				r.pass(5 * time.Second)
				before := r.runs(uid, "a")["a"]
				r.loseStore()
				test(r, before)
			})
		})
	}
}
