package store

import (
	"database/sql/driver"
	"fmt"
	"time"
)

// stampLayout is how times are stored: RFC 3339, UTC, always six fractional
// digits, so that text order is time order.
const stampLayout = "2006-01-02T15:04:05.000000Z"

// stamp is a stored time; empty is NULL and the zero time. Two equal times to
// the microsecond are equal stamps.
type stamp string

func stampOf(t time.Time) stamp {
	if t.IsZero() {
		return ""
	}
	return stamp(t.UTC().Format(stampLayout))
}

// Time is the zero time when the stamp is empty, or when someone wrote
// something else into the column by hand.
func (s stamp) Time() time.Time {
	t, err := time.Parse(stampLayout, string(s))
	if err != nil {
		return time.Time{}
	}
	return t
}

// sameStart reports whether two times are of one start: a listing knows whole
// seconds only.
func (s stamp) sameStart(other stamp) bool {
	const whole = len("2006-01-02T15:04:05")
	if s == other || s == "" || other == "" {
		return s == other
	}
	return s[:whole] == other[:whole] && (s[whole:] == ".000000Z" || other[whole:] == ".000000Z")
}

// Scan implements sql.Scanner.
func (s *stamp) Scan(v any) error {
	switch v := v.(type) {
	case nil:
		*s = ""
	case string:
		*s = stamp(v)
	default:
		return fmt.Errorf("a time is stored as %T", v)
	}
	return nil
}

// Value implements driver.Valuer.
func (s stamp) Value() (driver.Value, error) {
	if s == "" {
		return nil, nil
	}
	return string(s), nil
}
