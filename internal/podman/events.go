package podman

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/containers/podman/v4/libpod/events"
	"github.com/containers/podman/v4/pkg/bindings"
	"github.com/containers/podman/v4/pkg/domain/entities"

	"podstead.io/podstead/internal/pod"
)

// overlap is how far back a new stream begins. Podman answers a moment before
// it watches its log; what happens between the two is in the log by then.
const overlap = 2 * time.Second

// Events follows the stream of events about this node's objects. The bindings'
// own function does not tell when the stream is open, and leaves a goroutine
// behind when its reader goes away.
func (d *Driver) Events(ctx context.Context, since time.Time, ready func(), fn func(pod.RuntimeEvent)) error {
	ctx, err := d.call(ctx)
	if err != nil {
		return err
	}
	client, err := bindings.GetClient(ctx)
	if err != nil {
		return classify("follow events of", d.o.URL, err)
	}
	if since.IsZero() {
		since = time.Now().Add(-overlap)
	}
	filters, err := json.Marshal(map[string][]string{"type": {"container", "image"}})
	if err != nil {
		return classify("follow events of", d.o.URL, err)
	}
	params := url.Values{
		"stream":  {"true"},
		"since":   {strconv.FormatInt(since.Unix(), 10)},
		"filters": {string(filters)},
	}
	resp, err := client.DoRequest(ctx, nil, http.MethodGet, "/events", params, nil)
	if err != nil {
		return classify("follow events of", d.o.URL, err)
	}
	defer resp.Body.Close()
	if !resp.IsSuccess() {
		return classify("follow events of", d.o.URL, resp.Process(nil))
	}
	var one sync.Mutex // the kernel tells at any time
	tell := func(e pod.RuntimeEvent) {
		one.Lock()
		defer one.Unlock()
		fn(e)
	}
	defer d.exits.subscribe(tell)()
	ready()
	ends := ends{}
	decoder := json.NewDecoder(resp.Body)
	for {
		var e entities.Event
		if err := decoder.Decode(&e); err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the stream was ended by Podman")
			}
			return &pod.Error{Class: pod.Unavailable, Op: "follow events of", Object: d.o.URL, Err: err}
		}
		if out, ok := d.translate(e, ends); ok {
			tell(out)
		}
	}
}

var eventKinds = map[events.Status]pod.EventKind{
	events.Create:  pod.EventCreated,
	events.Start:   pod.EventStarted,
	events.Exited:  pod.EventDied,
	events.Stop:    pod.EventStopped,
	events.Kill:    pod.EventStopped,
	events.Restart: pod.EventStopped,
	events.Pause:   pod.EventPaused,
	events.Unpause: pod.EventResumed,
	events.Remove:  pod.EventRemoved,
}

// translate drops what does not matter or is not the node's. Labels stand among
// the attributes.
func (d *Driver) translate(e entities.Event, ends ends) (pod.RuntimeEvent, bool) {
	if e.Type == string(events.Image) {
		return pod.RuntimeEvent{Kind: pod.EventImage, At: time.Unix(0, e.TimeNano)}, true
	}
	attributes := e.Actor.Attributes
	if e.Type != string(events.Container) || attributes[pod.LabelNode] != d.o.Node {
		return pod.RuntimeEvent{}, false
	}
	kind, ok := eventKinds[events.Status(e.Action)]
	if ends.stopped(e) {
		kind, ok = pod.EventStopped, true
	}
	ends.follow(e)
	if !ok {
		return pod.RuntimeEvent{}, false
	}
	if _, err := pod.ParseLabels(attributes); err != nil {
		return pod.RuntimeEvent{}, false
	}
	if kind == pod.EventRemoved {
		d.mine.Delete(e.Actor.ID)
		d.exits.forget(e.Actor.ID)
	}
	out := pod.RuntimeEvent{Kind: kind, ID: e.Actor.ID, At: time.Unix(0, e.TimeNano)}
	if attributes[pod.LabelKind] == string(pod.KindSandbox) {
		out.SandboxID = attributes["podId"] // empty on the event of its death
	}
	return out, true
}

// ends follows the ends of this node's containers, by ID, to tell `podman stop`
// from an end of a container's own: Podman 4 mostly reports no stop, for by the
// time that it would the container counts as ended. But who stops a container
// cleans up after it, as the process that Podman starts at every end does: a
// second clean-up is the sign of a stop.
type ends map[string]end

type end struct {
	at    time.Time
	clean bool // it has been cleaned up once
}

// stopTakes is how long after an end the clean-up of a stop may come. Later it
// is of another command, on a container that had ended by itself.
const stopTakes = 10 * time.Second

// follow takes every event of the stream. A container is forgotten when it is
// started again or removed, and when it is too late for a stop.
func (l ends) follow(e entities.Event) {
	at := time.Unix(0, e.TimeNano)
	switch id := e.Actor.ID; events.Status(e.Action) {
	case events.Exited:
		for other, was := range l {
			if at.Sub(was.at).Abs() > stopTakes { // the clock may have been set back
				delete(l, other)
			}
		}
		l[id] = end{at: at}
	case events.Cleanup:
		if was, ok := l[id]; ok {
			l[id] = end{at: was.at, clean: true}
		}
	case events.Start, events.Remove:
		delete(l, id)
	}
}

// stopped reports whether the event is the second clean-up.
func (l ends) stopped(e entities.Event) bool {
	was := l[e.Actor.ID]
	return events.Status(e.Action) == events.Cleanup && was.clean && time.Unix(0, e.TimeNano).Sub(was.at).Abs() <= stopTakes
}
