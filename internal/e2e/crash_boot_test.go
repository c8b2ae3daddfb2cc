package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// bootScene strikes the agent while it starts, with its database, without it, and
// with an edit that it has missed.
func bootScene() scene {
	name := static("web")
	edition := 0
	web := func() *corev1.Pod { return newPod("web", sleeper("a"), with(sleeper("b"), "N", fmt.Sprint(edition))) }
	done := func(r *rig) error {
		if err := r.healthy("/readyz"); err != nil {
			return err
		}
		return errors.Join(r.allRun(name, "a", "b"), r.allRun("sent", "a"), r.allRun(static("quiet"), "a"))
	}
	check := func(t *testing.T, r *rig) []string {
		return append(r.wrong(t, name, map[string]int{"a": 0, "b": edition}), r.wrong(t, "sent", map[string]int{"a": 0})...)
	}
	return scene{
		name: "agent's own start",
		prepare: func(t *testing.T, r *rig) {
			besides(t, r)
			r.drop(t, web())
			wantStatus(t, r.submit(t, manifest(t, newPod("sent", sleeper("a")))), http.StatusCreated)
			r.awaitRunning(t, name, "a", "b")
			r.awaitRunning(t, "sent", "a")
		},
		operations: []operation{
			{name: "adopt", begin: func(t *testing.T, r *rig) { r.crash(t, nil) }, done: done, check: check},
			{
				name:  "restore the database",
				begin: func(t *testing.T, r *rig) { r.crash(t, func() { r.removeFiles(t, database) }) },
				done:  done, check: check,
			},
			{
				name: "catch up with an edit",
				begin: func(t *testing.T, r *rig) {
					edition++
					r.crash(t, func() { r.drop(t, web()) })
				},
				done: func(r *rig) error {
					rows, err := r.one(`SELECT attempt FROM desired_containers WHERE pod = ?1 AND container = 'b'`, name)
					if err != nil {
						return err
					}
					if fmt.Sprint(rows) != fmt.Sprint(edition) {
						return fmt.Errorf("container b is at attempt %v, want %d", rows, edition)
					}
					return done(r)
				},
				lives: map[string]int{"b": 2}, check: check,
			},
		},
	}
}
