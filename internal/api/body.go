package api

import (
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// bodyRule is what a resource takes as a body.
type bodyRule struct {
	types []string // media types; the first is the one to recommend
	limit int64    // bytes
}

// read reads the body whole and returns it with its media type, the first of
// the rule's when the request names none.
//
// What curl sends by default, application/x-www-form-urlencoded, is not taken:
// curl -d strips line ends, and a manifest without them is another one.
func (b bodyRule) read(w http.ResponseWriter, r *http.Request) ([]byte, string, error) {
	media := b.types[0]
	if given := r.Header.Get("Content-Type"); given != "" {
		parsed, params, err := mime.ParseMediaType(given)
		if err != nil || !slices.Contains(b.types, parsed) {
			return nil, "", unsupported(fmt.Sprintf("Content-Type %q is not taken here; send one of %s, for example with curl -H 'Content-Type: %s' --data-binary @FILE", given, strings.Join(b.types, ", "), b.types[0]))
		}
		if charset := params["charset"]; charset != "" && !strings.EqualFold(charset, "utf-8") {
			return nil, "", unsupported(fmt.Sprintf("the charset %q is not taken; send UTF-8", charset))
		}
		media = parsed
	}
	if enc := r.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		return nil, "", unsupported(fmt.Sprintf("Content-Encoding %q is not taken; send the body as it is", enc))
	}
	data, err := io.ReadAll(http.MaxBytesReader(innermost(w), r.Body, b.limit))
	if err != nil {
		return nil, "", err
	}
	// The deadline was the body's. Left in place it would end the request
	// itself: the server reads on to see whether the client goes away.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	return data, media, nil
}

// innermost is the server's own writer. It alone can be told by MaxBytesReader
// to let the client, which is still sending, read the answer before it closes.
func innermost(w http.ResponseWriter) http.ResponseWriter {
	for {
		outer, ok := w.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return w
		}
		w = outer.Unwrap()
	}
}

func unsupported(message string) error {
	return &apierrors.StatusError{ErrStatus: status(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, message)}
}
