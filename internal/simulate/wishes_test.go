package simulate

import (
	"sync"
	"time"

	"podstead.io/podstead/internal/pod"
)

// wish is a change of what is wanted of one pod.
type wish struct {
	// Shape is what is wanted from now on; nil: nothing.
	Shape *shape
	Grace time.Duration // for the pod to end in, if it is wanted no more
	Made  time.Time
	// Acked is when the agent said so; zero: not yet.
	Acked time.Time
	set   pod.SourceSet
	grace *time.Duration // as it was asked for
}

// wishes are all that was ever wanted, by pod, oldest first. It is what the
// oracle goes by.
type wishes struct {
	mu      sync.Mutex
	pods    map[pod.Key][]*wish
	order   []pod.Key
	changed chan struct{} // has room for one signal that a file changed
}

func newWishes() *wishes {
	return &wishes{pods: map[pod.Key][]*wish{}, changed: make(chan struct{}, 1)}
}

func keyOf(slot int, file bool) pod.Key {
	return pod.Key{Namespace: "default", Name: podName(slot, file)}
}

func (w *wishes) add(key pod.Key, file bool, n *wish) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.pods[key]; !known {
		w.order = append(w.order, key)
	}
	w.pods[key] = append(w.pods[key], n)
	if file {
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

func (w *wishes) latest(key pod.Key) *wish {
	w.mu.Lock()
	defer w.mu.Unlock()
	list := w.pods[key]
	if len(list) == 0 {
		return nil
	}
	return list[len(list)-1]
}

// files is what the directory holds, with the wishes that this fulfils.
func (w *wishes) files() (wanted []*wish, set pod.SourceSet) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range w.order {
		list := w.pods[key]
		if !static(list) {
			continue
		}
		last := list[len(list)-1]
		set.Pods = append(set.Pods, last.set.Pods...)
		for _, n := range list {
			if n.Acked.IsZero() {
				wanted = append(wanted, n)
			}
		}
	}
	return wanted, set
}

func static(list []*wish) bool {
	for _, n := range list {
		if n.Shape != nil {
			return n.Shape.File
		}
	}
	return false
}

func (w *wishes) acknowledge(list []*wish) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range list {
		n.Acked = time.Now()
	}
}

// pending are the oldest wishes over HTTP, one a pod, that wait for an answer.
func (w *wishes) pending() (keys []pod.Key, first []*wish) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range w.order {
		if static(w.pods[key]) {
			continue
		}
		for _, n := range w.pods[key] {
			if n.Acked.IsZero() {
				keys, first = append(keys, key), append(first, n)
				break
			}
		}
	}
	return keys, first
}

// snapshot is all there is to judge by.
func (w *wishes) snapshot() (order []pod.Key, pods map[pod.Key][]wish) {
	w.mu.Lock()
	defer w.mu.Unlock()
	pods = map[pod.Key][]wish{}
	for key, list := range w.pods {
		for _, n := range list {
			pods[key] = append(pods[key], *n)
		}
	}
	return append(order, w.order...), pods
}
