package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"podstead.io/podstead/internal/pod"
)

// modelPod is what the model knows of a wanted pod.
type modelPod struct {
	source     string
	sub        pod.Submission
	generation int64
	revision   int64
	containers map[string]int64 // revision by name, those removed included
	wanted     map[string]bool
}

// model is the simplest thing that behaves as the store should: a map of names
// to pods, and what each directory wants.
type model struct {
	t         *testing.T
	s         *Store
	namespace string
	dirs      []pod.Source
	http      pod.Source
	wants     map[string]map[string]pod.Submission // by source ID and name
	queue     map[string][]string                  // by name: sources that wait, in order
	pods      map[string]*modelPod
}

func newModel(t *testing.T, s *Store, n int) *model {
	m := &model{
		t: t, s: s, namespace: fmt.Sprintf("ns%d", n), wants: map[string]map[string]pod.Submission{},
		queue: map[string][]string{}, pods: map[string]*modelPod{},
		http: pod.Source{ID: fmt.Sprintf("http-%d", n), Kind: pod.SourceHTTP},
	}
	for _, d := range []string{"a", "b"} {
		src := pod.Source{ID: fmt.Sprintf("directory:/%d/%s", n, d), Kind: pod.SourceDirectory}
		m.dirs = append(m.dirs, src)
		m.wants[src.ID] = map[string]pod.Submission{}
	}
	return m
}

var modelNames = []string{"p", "q", "r"}

// draw is any of a few manifests of that name.
func (m *model) draw(t *rapid.T, name string) pod.Submission {
	opts := []option{withImage("main", rapid.SampledFrom([]string{"one", "two"}).Draw(t, "image"))}
	if rapid.Bool().Draw(t, "side") {
		opts = append(opts, withImage("side", rapid.SampledFrom([]string{"three", "four"}).Draw(t, "side image")))
	}
	if rapid.IntRange(0, 3).Draw(t, "host network") == 0 {
		opts = append(opts, withHostNetwork)
	}
	opts = append(opts, func(p *corev1.Pod) { p.Namespace = m.namespace })
	return submission(name, opts...)
}

func (m *model) take(source string, sub pod.Submission) {
	name := sub.Pod.Name
	p := m.pods[name]
	if p == nil {
		p = &modelPod{source: source, sub: sub, generation: 1, revision: 1, containers: map[string]int64{}, wanted: map[string]bool{}}
		for _, c := range sub.Pod.Spec.Containers {
			p.containers[c.Name], p.wanted[c.Name] = 1, true
		}
		m.pods[name] = p
		return
	}
	if p.sub.Hash == sub.Hash {
		return
	}
	podWide, changes := pod.Diff(p.sub.Pod, sub.Pod)
	p.generation++
	if podWide {
		p.revision++
	}
	for c, change := range changes {
		switch change {
		case pod.ContainerRemoved:
			p.wanted[c] = false
		default:
			p.containers[c]++
			p.wanted[c] = true
		}
	}
	for c, wanted := range p.wanted {
		if podWide && wanted && changes[c] == "" {
			p.containers[c]++
		}
	}
	p.sub = sub
}

// free removes a pod and gives its name to whoever waits for it.
func (m *model) free(name string) {
	delete(m.pods, name)
	waiting := m.queue[name]
	if len(waiting) == 0 {
		return
	}
	m.queue[name] = waiting[1:]
	m.take(waiting[0], m.wants[waiting[0]][name])
}

func (m *model) sync(t *rapid.T) {
	src := rapid.SampledFrom(m.dirs).Draw(t, "source")
	var set pod.SourceSet
	next := map[string]pod.Submission{}
	for _, name := range modelNames {
		switch rapid.IntRange(0, 3).Draw(t, name) {
		case 0: // gone
		case 1: // broken
			set.Incomplete = append(set.Incomplete, name+".yaml")
			if was, ok := m.wants[src.ID][name]; ok {
				next[name] = was
			}
		default:
			next[name] = m.draw(t, name)
			set.Pods = append(set.Pods, next[name])
		}
	}
	before := m.wants[src.ID]
	m.wants[src.ID] = next
	for name := range before {
		if _, stays := next[name]; stays {
			continue
		}
		if p := m.pods[name]; p != nil && p.source == src.ID {
			m.free(name)
		} else {
			m.queue[name] = slices.DeleteFunc(m.queue[name], func(id string) bool { return id == src.ID })
		}
	}
	for name, sub := range next {
		p := m.pods[name]
		switch {
		case p == nil || p.source == src.ID:
			m.take(src.ID, sub)
		case !slices.Contains(m.queue[name], src.ID):
			m.queue[name] = append(m.queue[name], src.ID)
		case before[name].Hash != sub.Hash:
			// Another manifest is another rejection, at the end of the line.
			m.queue[name] = append(slices.DeleteFunc(m.queue[name], func(id string) bool { return id == src.ID }), src.ID)
		}
	}
	mustSync(m.t, m.s, src, set)
	unwritten(m.t, m.s, "the same sync again", func() { mustSync(m.t, m.s, src, set) })
}

func (m *model) submit(t *rapid.T) {
	var subs []pod.Submission
	taken := false
	for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(modelNames), 1, 2, rapid.ID[string]).Draw(t, "names") {
		subs = append(subs, m.draw(t, name))
		taken = taken || m.pods[name] != nil && m.pods[name].source != m.http.ID
	}
	_, err := m.s.Submit(context.Background(), m.http, subs)
	if taken {
		wantClass(m.t, err, pod.Conflict)
		return
	}
	if err != nil {
		m.t.Fatal(err)
	}
	for _, sub := range subs {
		m.take(m.http.ID, sub)
	}
}

func (m *model) withdraw(t *rapid.T) {
	name := rapid.SampledFrom(modelNames).Draw(t, "name")
	err := m.s.Withdraw(context.Background(), m.http, pod.Key{Namespace: m.namespace, Name: name}, nil)
	switch p := m.pods[name]; {
	case p != nil && p.source == m.http.ID:
		if err != nil {
			m.t.Fatal(err)
		}
		m.free(name)
	case p != nil:
		wantClass(m.t, err, pod.Conflict)
	case err != nil && !errors.Is(err, pod.NotFound) && !errors.Is(err, pod.Conflict):
		m.t.Fatal(err)
	}
}

// step plays the reconciler and the runtime for one pod.
func (m *model) step(t *rapid.T) {
	uids := m.uids()
	if len(uids) == 0 {
		return
	}
	snap, err := m.s.Load(context.Background(), rapid.SampledFrom(uids).Draw(t, "pod"))
	if err != nil {
		m.t.Fatal(err)
	}
	d, r := snap.Desired, recordFor(snap)
	if d.Deletion != nil {
		r.Forget = true
		mustCommit(m.t, m.s, r)
		return
	}
	dc := d.Containers[rapid.IntRange(0, len(d.Containers)-1).Draw(t, "container")]
	r.Attempts = map[string]int{dc.Name: dc.Attempt + 1}
	r.State = rapid.SampledFrom([]pod.State{pod.StatePending, pod.StateRunning, pod.StateFailed}).Draw(t, "state")
	mustCommit(m.t, m.s, r)
	c := containerOf(d, dc.Name, dc.Attempt+1, time.Now())
	if rapid.Bool().Draw(t, "ended") {
		c = exited(c, 1, time.Now())
	}
	mustObserve(m.t, m.s, pod.Facts{Containers: []pod.Container{c}})
	if rapid.Bool().Draw(t, "removed") {
		mustObserve(m.t, m.s, pod.Facts{GoneContainers: []pod.Gone{{ID: c.ID}}})
	}
}

func (m *model) uids() []types.UID {
	var uids []types.UID
	err := m.s.Read(context.Background(), func(tx *ReadTx) error {
		return tx.Select(&uids, `SELECT uid FROM desired_pods WHERE namespace = ? ORDER BY created_at, rowid`, m.namespace)
	})
	if err != nil {
		m.t.Fatal(err)
	}
	return uids
}

// check compares the store with the model.
func (m *model) check(t *rapid.T) {
	list, err := m.s.Pods(context.Background(), m.namespace)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, d := range list {
		if d.Deletion != nil {
			continue
		}
		if _, twice := got[d.Name]; twice {
			t.Fatalf("%s is wanted twice", d.Key)
		}
		got[d.Name] = fmt.Sprintf("%s %s %s", d.Source.ID, d.Hash, revisions(d))
	}
	want := map[string]string{}
	for name, p := range m.pods {
		text := fmt.Sprintf("%s %s g%d r%d", p.source, p.sub.Hash, p.generation, p.revision)
		for _, c := range p.sub.Pod.Spec.Containers {
			text += fmt.Sprintf(" %s:%d", c.Name, p.containers[c.Name])
		}
		want[name] = text
	}
	if !maps.Equal(got, want) {
		t.Fatalf("the store has\n%v\nthe model\n%v", got, want)
	}
	waiting := query(m.t, m.s, `SELECT source || ' ' || pod FROM rejections WHERE namespace = ? AND manifest <> '' ORDER BY pod, id`, m.namespace)
	var line []string
	for _, name := range modelNames {
		for _, id := range m.queue[name] {
			line = append(line, id+" "+name)
		}
	}
	if !slices.Equal(waiting, line) {
		t.Fatalf("waiting are\n%v\nin the model\n%v", waiting, line)
	}
}

func TestStoreBehavesAsItsModel(t *testing.T) {
	s, _ := mustOpen(t, testOptions(t.TempDir()))
	defer s.Close()
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		m := newModel(t, s, n)
		rt.Repeat(map[string]func(*rapid.T){
			"sync": m.sync, "submit": m.submit, "withdraw": m.withdraw, "step": m.step, "": m.check,
		})
		compareBackup(t, s)
	})
}
