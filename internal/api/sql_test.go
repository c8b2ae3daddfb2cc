package api_test

import (
	"context"
	"database/sql"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"podstead.io/podstead/internal/api"
	"podstead.io/podstead/internal/wire"
)

// answering is a host whose engine gives the rows, and notes what it was asked.
func answering(t *testing.T, rows wire.Rows) (h host, asked *[]any) {
	asked = &[]any{}
	return newHost(t, func(o *api.Options) {
		o.SQL = queryFunc(func(_ context.Context, text string, args ...any) (wire.Rows, error) {
			*asked = append([]any{text}, args...)
			return rows, nil
		})
	}), asked
}

var everyType = wire.Rows{
	Columns: []string{"z", "a", "a", "blob", "inf", "nothing"},
	Rows: [][]any{
		{int64(math.MaxInt64), "<a&b>", 1.5, []byte{0, 255}, math.Inf(1), nil},
		{int64(-1), "x", 2.0, []byte{}, math.Inf(-1), nil},
	},
}

func TestSQLAnswersObjectsInColumnOrder(t *testing.T) {
	h, _ := answering(t, everyType)
	w := h.call(t, "POST", "/sql", "select 1")
	want := `[{"z":9223372036854775807,"a":"<a&b>","a:1":1.5,"blob":"AP8=","inf":"Infinity","nothing":null},
{"z":-1,"a":"x","a:1":2,"blob":"","inf":"-Infinity","nothing":null}]
`
	if w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("got %d %s\nwant %s", w.Code, w.Body, want)
	}
	h, _ = answering(t, wire.Rows{Columns: []string{"a"}})
	if w := h.call(t, "POST", "/sql", "select 1"); w.Body.String() != "[]\n" {
		t.Errorf("no rows are %q", w.Body)
	}
}

func TestSQLAnswersRows(t *testing.T) {
	h, _ := answering(t, everyType)
	w := h.call(t, "POST", "/sql?format=rows", "select 1")
	want := `{"columns":["z","a","a","blob","inf","nothing"],"rows":[[9223372036854775807,"<a&b>",1.5,"AP8=","Infinity",null],[-1,"x",2,"","-Infinity",null]]}
`
	if w.Code != http.StatusOK || w.Body.String() != want {
		t.Errorf("got %d %s\nwant %s", w.Code, w.Body, want)
	}
	h, _ = answering(t, wire.Rows{Columns: []string{"a"}})
	if w := h.call(t, "POST", "/sql?format=rows", "select 1"); w.Body.String() != `{"columns":["a"],"rows":[]}`+"\n" {
		t.Errorf("no rows are %q", w.Body)
	}
}

// Whoever gets fewer rows than there are must be able to see that.
func TestSQLFlagsTruncation(t *testing.T) {
	h, _ := answering(t, wire.Rows{Columns: []string{"a"}, Rows: [][]any{{int64(1)}}, Truncated: "rows"})
	w := h.call(t, "POST", "/sql", "select 1")
	if w.Header().Get(wire.HeaderTruncated) != "rows" {
		t.Errorf("the objects have no flag: %v", w.Header())
	}
	w = h.call(t, "POST", "/sql?format=rows", "select 1")
	if r := decode[wire.Rows](t, w, http.StatusOK); r.Truncated != "rows" {
		t.Errorf("the rows have no flag: %s", w.Body)
	}
}

func TestSQLParameters(t *testing.T) {
	for _, c := range []struct {
		body string
		want []any
	}{
		{`{"query":"q","parameters":[1,2.5,"x",null,true,false,[1,"a"],{"k":1},1e400]}`,
			[]any{"q", int64(1), 2.5, "x", nil, int64(1), int64(0), `[1,"a"]`, `{"k":1}`, "1e400"}},
		{`{"query":"q","parameters":{"pod":"web"}}`, []any{"q", sql.Named("pod", "web")}},
		{`{"query":"q","parameters":[9007199254740993]}`, []any{"q", int64(9007199254740993)}},
		{`{"query":"q","parameters":null}`, []any{"q"}},
		{`{"query":"q"}`, []any{"q"}},
	} {
		h, asked := answering(t, wire.Rows{})
		w := h.call(t, "POST", "/sql", c.body, "Content-Type", "application/json; charset=UTF-8")
		if w.Code != http.StatusOK || !reflect.DeepEqual(*asked, c.want) {
			t.Errorf("%s: %d, asked %#v, want %#v", c.body, w.Code, *asked, c.want)
		}
	}
}

func TestSQLBadRequests(t *testing.T) {
	h, asked := answering(t, wire.Rows{})
	for _, c := range []struct{ target, media, body string }{
		{"/sql", "text/plain", ""},
		{"/sql", "text/plain", " \n"},
		{"/sql", "text/plain", "select '\xff'"},
		{"/sql", "application/json", "select 1"},
		{"/sql", "application/json", `{"query":""}`},
		{"/sql", "application/json", `{"query":"q","params":[]}`},
		{"/sql", "application/json", `{"query":"q","parameters":7}`},
		{"/sql", "application/json", `{"query":"q","parameters":{"":1}}`},
		{"/sql?format=xml", "text/plain", "select 1"},
	} {
		wantStatus(t, h.call(t, "POST", c.target, c.body, "Content-Type", c.media), http.StatusBadRequest, metav1.StatusReasonBadRequest)
	}
	for _, c := range [][]string{
		{"Content-Type", "application/x-www-form-urlencoded"},
		{"Content-Type", "text/plain; charset=latin1"},
		{"Content-Type", ";"},
		{"Content-Encoding", "gzip"},
	} {
		wantStatus(t, h.call(t, "POST", "/sql", "select 1", c...), http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType)
	}
	r := httptest.NewRequestWithContext(t.Context(), "POST", "/sql", endless{})
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if s := wantStatus(t, w, http.StatusRequestEntityTooLarge, metav1.StatusReasonRequestEntityTooLarge); !strings.Contains(s.Message, "1048576") {
		t.Errorf("the limit is not told: %s", s.Message)
	}
	if len(*asked) > 0 {
		t.Errorf("the engine was asked %v", *asked)
	}
}
