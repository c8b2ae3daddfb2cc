package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// page is a web server with one page, which knows conditional requests.
type page struct {
	mu       sync.Mutex
	content  []byte
	version  int
	failing  bool
	asked    int // how often, in all
	unknown  int // requests without the header that they should have
	unneeded int // answered 304
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked++
	if r.Header.Get("X-Site") != "attic" {
		p.unknown++
	}
	tag := fmt.Sprintf(`"%d"`, p.version)
	w.Header().Set("ETag", tag)
	switch {
	case p.failing:
		http.Error(w, "out of order", http.StatusInternalServerError)
	case r.Header.Get("If-None-Match") == tag:
		p.unneeded++
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("Content-Type", "application/yaml")
		_, _ = w.Write(p.content)
	}
}

func (p *page) set(content []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.content, p.failing = content, false
	p.version++
}

func (p *page) fail() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing = true
}

func (p *page) counts() (asked, unknown, unneeded int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked, p.unknown, p.unneeded
}

// awaitPolls waits for two more requests: the answer to the first has been dealt
// with when the second comes.
func (p *page) awaitPolls(t *testing.T) {
	t.Helper()
	before, _, _ := p.counts()
	eventually(t, "the URL is polled twice", func() error {
		now, _, _ := p.counts()
		return unless(now >= before+2, "it was asked for %d times, and %d times before", now, before)
	})
}

// startWithURL starts an agent that polls a page, which has no pods at first.
func startWithURL(t *testing.T, flags ...string) (*agent, *page) {
	t.Helper()
	site := &page{content: []byte(noPods)}
	server := httptest.NewServer(site)
	t.Cleanup(server.Close)
	return startAgent(t, append(flags, "--manifest-url", server.URL+"/pods.yaml",
		"--manifest-url-header", "X-Site:attic", "--http-check-frequency", "300ms")...), site
}

const noPods = `{"apiVersion": "v1", "kind": "PodList", "items": []}`

func TestURL(t *testing.T) {
	t.Parallel()
	a, site := startWithURL(t)
	site.set(manifest(t, newPod("far", sleeper("a"), sleeper("b"))))
	far := static("far")
	was := a.awaitRunning(t, far, "a", "b")

	t.Run("header and conditional requests", func(t *testing.T) {
		site.awaitPolls(t)
		if asked, unknown, unneeded := site.counts(); unknown != 0 || unneeded == 0 {
			t.Errorf("of %d requests %d had no header, %d were answered 304", asked, unknown, unneeded)
		}
		same(t, was, a.live(t, far))
	})
	t.Run("change", func(t *testing.T) {
		site.set(manifest(t, newPod("far", with(sleeper("a"), "N", "1"), sleeper("b"))))
		is := a.awaitGeneration(t, far, 2)
		same(t, was, is, "POD", "b")
		replaced(t, was, is, "a")
		was = is
	})
	t.Run("server error", func(t *testing.T) {
		site.fail()
		site.awaitPolls(t)
		if table := a.prints(t, "get", "sources"); !strings.Contains(table, "500") {
			t.Errorf("the sources do not tell of the error:\n%s", table)
		}
		same(t, was, a.live(t, far))
	})
	t.Run("nonsense", func(t *testing.T) {
		site.set([]byte("<html>please log in</html>"))
		eventually(t, "the page is rejected", func() error { return unless(len(a.rejections(t)) > 0, "it is not") })
		same(t, was, a.live(t, far))
	})
	t.Run("list", func(t *testing.T) {
		site.set([]byte(noPods))
		a.awaitGone(t, far)
		a.awaitNoRejection(t)
	})
}
