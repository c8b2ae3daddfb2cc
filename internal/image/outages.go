package image

import (
	"sync"
	"time"
)

// outages remembers the registries that gave no answer, so that one pod's wait
// is not every pod's.
type outages struct {
	memory time.Duration

	mu     sync.Mutex
	byHost map[string]outage
}

type outage struct {
	err   error
	until time.Time
}

// recall is why the host is out of reach, nil when it is worth asking.
func (o *outages) recall(host string, now time.Time) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	known, ok := o.byHost[host]
	if !ok || !now.Before(known.until) {
		return nil
	}
	return known.err
}

func (o *outages) began(host string, err error, now time.Time) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.byHost[host] = outage{err: err, until: now.Add(o.memory)}
}

func (o *outages) over(host string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.byHost, host)
}
