package introspect

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestBoundedFunctions(t *testing.T) {
	e, _ := newEngine(t, Limits{})
	for text, want := range map[string]any{
		"instr('abcabc', 'ca')":                             int64(3),
		"instr('äöü', 'ü')":                                 int64(3),
		"instr(x'c3a4ff', x'ff')":                           int64(3),
		"instr('abc', 'x')":                                 int64(0),
		"instr('abc', '')":                                  int64(1),
		"instr(1234, 3)":                                    int64(3),
		"instr(NULL, 'a')":                                  nil,
		"replace('aXbX', 'X', '--')":                        "a--b--",
		"replace('abc', '', 'x')":                           "abc",
		"replace('abc', 'b', NULL)":                         nil,
		"replace(10, 1, 2)":                                 "20",
		"replace(1.0, '.', ',')":                            "1,0",
		"trim('  a b  ')":                                   "a b",
		"trim('xyaxy', 'yx')":                               "a",
		"ltrim('  a ')":                                     "a ",
		"rtrim('äaä', 'ä')":                                 "äa",
		"trim(NULL)":                                        nil,
		"trim('a', NULL)":                                   nil,
		"upper(trim(' a ')) || 'A' LIKE '%a'":               int64(1),
		"(SELECT count(*) FROM pods WHERE name LIKE 'W_B')": int64(1),
	} {
		if got := mustQuery(t, e, "SELECT "+text).Rows[0][0]; !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %#v, want %#v", text, got, want)
		}
	}
	for text, says := range map[string]string{
		"replace(format('%01000000d', 0), '0', format('%01000000d', 0))": "too big",
		"trim('a', 'b', 'c')": "one or two",
		"instr('a')":          "wrong number",
	} {
		if _, err := e.Query(t.Context(), "SELECT length("+text+")"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// numbered is the numbers from 1 to n as the table n(i).
func numbered(n int) string {
	return fmt.Sprintf("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) ", n)
}

func joined(view string, n int) string {
	text := "SELECT 1 FROM " + view + " v0"
	for i := 1; i < n; i++ {
		text += fmt.Sprintf(" JOIN %s v%d", view, i)
	}
	return text + " LIMIT 1"
}

// slowest are the statements in which one step that can't be interrupted takes
// the longest: a function over the largest values, a sort, compilation.
func slowest() map[string]string {
	const (
		zeros  = "format('%01200000d', 0)"
		needle = "format('%0600000d', 1)"
		object = "(SELECT json_group_object('k' || i, i) AS o FROM n)"
	)
	repeated := func(text string, n int) string {
		return fmt.Sprintf("replace(format('%%0%dd', 0), '0', '%s')", n, text)
	}
	return map[string]string{
		"instr":         "SELECT instr(" + zeros + ", " + needle + ")",
		"instr of blob": "SELECT instr(CAST(" + zeros + " AS BLOB), CAST(" + needle + " AS BLOB))",
		"replace":       "SELECT length(replace(" + zeros + ", " + needle + ", ''))",
		"trim":          "SELECT length(trim(" + zeros + ", format('%0600000d', 0) || '1'))",
		"trim of pairs": "SELECT length(trim(" + repeated("ab", 300000) + ", " + repeated("xyz", 300000) + " || 'ab'))",
		"like":          "SELECT " + zeros + " LIKE '%0%0%0%1'",
		"like, long":    "SELECT " + zeros + " LIKE '%" + strings.Repeat("0", 58) + "1'",
		"glob":          "SELECT " + zeros + " GLOB '*0*0*[0-9]*1'",
		"format":        "SELECT length(printf('%.99999999f%!.99999999g', 1.5, 1.5))",
		"format, many":  "SELECT length(printf(" + repeated("%9999999s", 100000) + ", 1))",
		"json_group":    numbered(100000) + "SELECT length(json_group_object(i, i)) FROM n",
		"json_set":      numbered(50000) + "SELECT length(json_set(o, '$.k49999', 1, '$.k49998', 2, '$.k49997', 3)) FROM " + object,
		"json_valid":    "SELECT json_valid(" + repeated("[", 600000) + ")",
		"strftime":      "SELECT length(strftime(" + repeated("%J", 600000) + ", 'now'))",
		"datetime":      "SELECT datetime('0000-01-01', '+1000000000 months', '-99999999 days', '+9999 years')",
		"unhex":         "SELECT length(unhex(" + zeros + ", " + needle + "))",
		"quote":         "SELECT length(quote(" + repeated("''", 600000) + "))",
		"sort":          numbered(1000000) + "SELECT count(*) FROM (SELECT i FROM n ORDER BY -i LIMIT -1 OFFSET 1)",
		"window":        numbered(30000) + "SELECT max(c) FROM (SELECT group_concat(i) OVER (ORDER BY i ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS c FROM n)",
		"a long join":   joined("meta", 60),
		"many views":    joined("pods", 12),
		"deep views":    joined("why", 12),
	}
}

// What can't be interrupted is short: a statement ends soon after its time is up,
// whatever it is busy with.
func TestNothingOutlastsItsTime(t *testing.T) {
	e, _ := newEngine(t, Limits{Time: 500 * time.Millisecond})
	for name, text := range slowest() {
		start := time.Now()
		_, err := e.Query(t.Context(), text)
		took := time.Since(start)
		t.Logf("%-14s %6d ms  %.90v", name, took.Milliseconds(), err)
		if took > 30*time.Second {
			t.Errorf("%s took %s", name, took)
		}
	}
}
