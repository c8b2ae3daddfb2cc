package api

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Check is one thing that health depends on. Run returns what is wrong, in
// words for the administrator; it obeys its context.
type Check struct {
	Name string
	Run  func(ctx context.Context) error
}

// checkTimeout bounds all checks of one request together: kubelet's and
// systemd's probes of a health endpoint give up after a second.
const checkTimeout = 900 * time.Millisecond

// healthRoutes answers as Kubernetes' components do: "ok", or 500 and a line for
// each check; ?verbose gives the lines in any case, /healthz/NAME one check.
// Unlike theirs, the lines have the reasons: only root's group can ask.
// See https://kubernetes.io/docs/reference/using-api/health-checks/.
func healthRoutes(r chi.Router, path string, checks []Check) {
	name := strings.TrimPrefix(path, "/")
	r.Get(path, func(w http.ResponseWriter, r *http.Request) { answerHealth(w, r, name, checks) })
	r.Get(path+"/{check}", func(w http.ResponseWriter, r *http.Request) {
		for _, c := range checks {
			if c.Name == chi.URLParam(r, "check") {
				answerHealth(w, r, name, []Check{c})
				return
			}
		}
		writeStatus(w, status(http.StatusNotFound, metav1.StatusReasonNotFound, "no such check: "+chi.URLParam(r, "check")))
	})
}

func answerHealth(w http.ResponseWriter, r *http.Request, name string, checks []Check) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	var lines strings.Builder
	code := http.StatusOK
	for _, c := range checks {
		if err := c.Run(ctx); err != nil {
			code = http.StatusInternalServerError
			fmt.Fprintf(&lines, "[-]%s failed: %s\n", c.Name, strings.ReplaceAll(err.Error(), "\n", "; "))
		} else {
			fmt.Fprintf(&lines, "[+]%s ok\n", c.Name)
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_, verbose := r.URL.Query()["verbose"]
	switch {
	case code != http.StatusOK:
		fmt.Fprintf(w, "%s%s check failed\n", lines.String(), name)
	case verbose:
		fmt.Fprintf(w, "%s%s check passed\n", lines.String(), name)
	default:
		fmt.Fprint(w, "ok")
	}
}
