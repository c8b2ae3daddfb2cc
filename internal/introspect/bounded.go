package introspect

import (
	"bytes"
	"database/sql/driver"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"modernc.org/sqlite"
)

// bounded are functions that take SQLite's place on the connections here. A call
// of a function can't be interrupted, and with SQLite's own these take minutes
// over a value of a megabyte: their time grows with the product of the lengths
// of two arguments, here with the sum.
var bounded = []struct {
	name string
	args int32 // -1: checked by the function
	call func(args []driver.Value) (driver.Value, error)
}{
	{"instr", 2, instr},
	{"replace", 3, replace},
	{"trim", -1, trim(true, true)},
	{"ltrim", -1, trim(true, false)},
	{"rtrim", -1, trim(false, true)},
}

var errTooBig = errors.New("string or blob too big")

func registerBounded(d *sqlite.Driver) error {
	for _, f := range bounded {
		err := d.RegisterDeterministicScalarFunction(f.name, f.args, func(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
			for _, v := range args {
				if v == nil {
					return nil, nil // as all of them do with a NULL
				}
			}
			return f.call(args)
		})
		if err != nil {
			return fmt.Errorf("register %s: %w", f.name, err)
		}
	}
	return nil
}

// textOf is a value as SQLite casts it to text.
func textOf(v driver.Value) string {
	switch v := v.(type) {
	case string:
		return v
	case []byte:
		return string(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case float64:
		text := strconv.FormatFloat(v, 'g', 15, 64)
		if !strings.ContainsAny(text, ".eIN") {
			text += ".0"
		}
		return text
	default:
		return fmt.Sprint(v)
	}
}

// instr counts characters, and bytes when both are blobs.
func instr(args []driver.Value) (driver.Value, error) {
	where, isBlob := args[0].([]byte)
	what, areBlobs := args[1].([]byte)
	if isBlob && areBlobs {
		return int64(bytes.Index(where, what) + 1), nil
	}
	text := textOf(args[0])
	at := strings.Index(text, textOf(args[1]))
	if at < 0 {
		return int64(0), nil
	}
	return int64(utf8.RuneCountInString(text[:at]) + 1), nil
}

func replace(args []driver.Value) (driver.Value, error) {
	text, from, to := textOf(args[0]), textOf(args[1]), textOf(args[2])
	if from == "" {
		return text, nil
	}
	if size := len(text) + strings.Count(text, from)*(len(to)-len(from)); size > maxValue {
		return nil, errTooBig
	}
	return strings.ReplaceAll(text, from, to), nil
}

// trim takes characters off the ends: blanks, or those that the second argument
// has.
func trim(left, right bool) func(args []driver.Value) (driver.Value, error) {
	return func(args []driver.Value) (driver.Value, error) {
		if len(args) != 1 && len(args) != 2 {
			return nil, errors.New("trim takes one or two arguments")
		}
		set := map[rune]bool{' ': true}
		if len(args) == 2 {
			clear(set)
			for _, c := range textOf(args[1]) {
				set[c] = true
			}
		}
		text := textOf(args[0])
		gone := func(c rune) bool { return set[c] }
		if left {
			text = strings.TrimLeftFunc(text, gone)
		}
		if right {
			text = strings.TrimRightFunc(text, gone)
		}
		return text, nil
	}
}
