package cli

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/wire"
)

// scope says which pods a name may mean.
type scope int

const (
	presentOnly scope = iota // wanted, or being deleted
	pastToo                  // and those that only history knows
)

// resolve turns a pod's name as written in a file into the pod's name: a pod
// from a directory or URL carries the node's name as a suffix. A pod whose whole
// name it is goes first, and one that is there before one that was.
func (s *session) resolve(ctx context.Context, c *client, namespace, name string, which scope) (string, error) {
	agent, err := c.agent(ctx)
	if err != nil {
		return "", err
	}
	rows, err := c.query(ctx, `SELECT name FROM (
			SELECT name, 0 AS past FROM pods WHERE (:namespace = '' OR namespace = :namespace) AND name IN (:name, :static)
			UNION ALL
			SELECT DISTINCT pod, 1 FROM transitions WHERE (:namespace = '' OR namespace = :namespace) AND pod IN (:name, :static)
		) WHERE past <= :past ORDER BY past, name <> :name LIMIT 1`,
		map[string]any{"namespace": namespace, "name": name, "static": name + "-" + strings.ToLower(agent.Node), "past": int(which)})
	if err != nil {
		return "", err
	}
	if len(rows.Rows) == 0 {
		return name, &statusError{wire.Refusal{Status: metav1.Status{
			Code: http.StatusNotFound, Reason: metav1.StatusReasonNotFound,
			Message: fmt.Sprintf("pods %q not found%s", name, within(namespace)),
		}}}
	}
	return text(rows.Rows[0][0]), nil
}

func within(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}
