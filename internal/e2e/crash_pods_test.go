package e2e

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// seed is the seed document's pod of two containers. Its shell ends at SIGTERM,
// so that no grace is waited for.
func seed(t *testing.T) *corev1.Pod {
	t.Helper()
	text, err := os.ReadFile("../../scripts/testdata/seed-nginx.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{}
	if err := yaml.UnmarshalStrict(text, p); err != nil {
		t.Fatal(err)
	}
	seconds := grace
	p.Spec.TerminationGracePeriodSeconds = &seconds
	truncator := &p.Spec.Containers[1]
	truncator.Args[1] = "trap 'exit 0' TERM; " + strings.ReplaceAll(truncator.Args[1], "sleep 10", "sleep 10 & wait $!")
	if !strings.Contains(truncator.Args[1], "& wait") {
		t.Fatalf("the seed's command is another than it was: %s", truncator.Args[1])
	}
	return p
}

// besides runs a pod that nothing that happens concerns.
func besides(t *testing.T, r *rig) {
	t.Helper()
	r.startQuiet(t)
}

// deletion removes a pod's file.
func deletion(file, name string, lives map[string]int) operation {
	return operation{
		name:  "delete",
		begin: func(t *testing.T, r *rig) { r.remove(t, file) },
		done:  func(r *rig) error { return r.forgotten(name) },
		lives: lives,
		check: func(t *testing.T, r *rig) []string { return r.remains(t, name) },
	}
}

// seedScene starts, edits and deletes the seed's pod.
func seedScene(t *testing.T) scene {
	p, name := seed(t), static("nginx")
	return scene{name: "one pod", prepare: besides, operations: []operation{
		{
			name:  "start",
			begin: func(t *testing.T, r *rig) { r.drop(t, p) },
			done:  func(r *rig) error { return r.allRun(name, "nginx", "log-truncator") },
			check: func(t *testing.T, r *rig) []string {
				return r.wrong(t, name, map[string]int{"nginx": 0, "log-truncator": 0})
			},
		},
		{
			name: "edit",
			begin: func(t *testing.T, r *rig) {
				edited := p.DeepCopy()
				edited.Spec.Containers[1] = with(edited.Spec.Containers[1], "N", "edited")
				r.drop(t, edited)
			},
			done:  func(r *rig) error { return r.edited(name, 2, "nginx", "log-truncator") },
			lives: map[string]int{"log-truncator": 2},
			check: func(t *testing.T, r *rig) []string {
				return r.wrong(t, name, map[string]int{"nginx": 0, "log-truncator": 1})
			},
		},
		deletion(p.Name+".yaml", name, map[string]int{"log-truncator": 2}),
	}}
}

// manyScene starts, edits and deletes five pods at once.
func manyScene() scene {
	pods := []string{"one", "two", "three", "four", "five"}
	all := func(fn func(name string) error) error {
		var failed error
		for _, name := range pods {
			failed = errors.Join(failed, fn(name))
		}
		return failed
	}
	wrong := func(fn func(name string) []string) (said []string) {
		for _, name := range pods {
			said = append(said, fn(static(name))...)
		}
		return said
	}
	return scene{name: "five pods", prepare: besides, operations: []operation{
		{
			name: "start",
			begin: func(t *testing.T, r *rig) {
				for _, name := range pods {
					r.drop(t, newPod(name, sleeper("a"), sleeper("b")))
				}
			},
			done: func(r *rig) error { return all(func(name string) error { return r.allRun(static(name), "a", "b") }) },
			check: func(t *testing.T, r *rig) []string {
				return wrong(func(name string) []string { return r.wrong(t, name, map[string]int{"a": 0, "b": 0}) })
			},
		},
		{
			name: "edit",
			begin: func(t *testing.T, r *rig) {
				for _, name := range pods {
					r.drop(t, newPod(name, sleeper("a"), with(sleeper("b"), "N", "edited")))
				}
			},
			done:  func(r *rig) error { return all(func(name string) error { return r.edited(static(name), 2, "a", "b") }) },
			lives: map[string]int{"b": 2},
			check: func(t *testing.T, r *rig) []string {
				return wrong(func(name string) []string { return r.wrong(t, name, map[string]int{"a": 0, "b": 1}) })
			},
		},
		{
			name: "delete",
			begin: func(t *testing.T, r *rig) {
				for _, name := range pods {
					r.remove(t, name+".yaml")
				}
			},
			done:  func(r *rig) error { return all(func(name string) error { return r.forgotten(static(name)) }) },
			lives: map[string]int{"b": 2},
			check: func(t *testing.T, r *rig) []string {
				return wrong(func(name string) []string { return r.remains(t, name) })
			},
		},
	}}
}

// initScene starts a pod whose two init containers must run once each, in order.
func initScene() scene {
	name := static("order")
	p := newPod("order", shell("app", note("app")+sleeping))
	p.Spec.InitContainers = []corev1.Container{shell("first", note("first")+"sleep 0.3"), shell("second", note("second")+"sleep 0.3")}
	var file string
	return scene{
		name:    "init containers",
		prepare: func(t *testing.T, r *rig) { file = r.noted(t, p) },
		operations: []operation{
			{
				name: "start",
				begin: func(t *testing.T, r *rig) {
					forgetNotes(t, file)
					r.drop(t, p)
				},
				// A container may run for a moment before it notes that.
				done: func(r *rig) error {
					did := noted(file)
					return errors.Join(unless(slices.Contains(did, "app"), "the containers noted %v", did), r.allRun(name, "app"))
				},
				check: func(t *testing.T, r *rig) []string {
					if did, pods := noted(file), r.podmanPods(t, name); !slices.Equal(did, []string{"first", "second", "app"}) || len(pods) != 1 {
						return []string{fmt.Sprintf("in %d Podman pods the containers noted %v", len(pods), did)}
					}
					return nil
				},
			},
			deletion("order.yaml", name, nil),
		},
	}
}

// backoffScene has a container that ends at once, three times: the second restart
// comes ten seconds after the first, whatever happens meanwhile.
func backoffScene() scene {
	const tries, shortest = 3, 9.5
	name := static("fails")
	p := newPod("fails", shell("a", `cut -d' ' -f1 /proc/uptime >>/notes/log; exit 3`))
	var file string
	return scene{
		name:    "back-off",
		prepare: func(t *testing.T, r *rig) { file = r.noted(t, p) },
		operations: []operation{
			{
				name: "restart twice",
				begin: func(t *testing.T, r *rig) {
					forgetNotes(t, file)
					r.drop(t, p)
				},
				done: func(*rig) error {
					tried := noted(file)
					return unless(len(tried) >= tries, "it was tried at %v", tried)
				},
				lives: map[string]int{"a": tries},
				check: func(t *testing.T, r *rig) []string {
					tried := noted(file)
					second, err := strconv.ParseFloat(tried[1], 64)
					third, err2 := strconv.ParseFloat(tried[2], 64)
					if err := errors.Join(err, err2); err != nil || len(tried) != tries || third-second < shortest {
						return []string{fmt.Sprintf("it was tried at %v", tried)}
					}
					return nil
				},
			},
			deletion("fails.yaml", name, map[string]int{"a": tries}),
		},
	}
}

// noted are the lines that containers have written so far.
func noted(file string) []string {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil // nobody has begun it
	}
	return strings.Fields(string(content))
}

func forgetNotes(t *testing.T, file string) {
	t.Helper()
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
}
