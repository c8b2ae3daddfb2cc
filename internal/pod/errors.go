package pod

import "errors"

// Class is what an error calls for. Callers tell errors apart by class with
// errors.Is, never by text.
type Class string

// Error makes a class usable as a target of errors.Is.
func (c Class) Error() string { return string(c) }

// The classes.
const (
	Invalid     Class = "invalid"     // refuse it; trying again can't help
	NotFound    Class = "not found"   // it is not there
	Conflict    Class = "conflict"    // someone else has it, or it changed meanwhile
	Forbidden   Class = "forbidden"   // it may not be asked for; trying again can't help
	Busy        Class = "busy"        // too much at a time; the same will do in a moment
	Unavailable Class = "unavailable" // try again later
	Internal    Class = "internal"    // a fault of ours
)

// Error is an error with a class, the operation and the object.
type Error struct {
	Class  Class
	Op     string // "create container"
	Object string // "k8s_web_…"
	Err    error
}

// Error is "op object: cause".
func (e *Error) Error() string {
	s := e.Op
	if e.Object != "" {
		s += " " + e.Object
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap gives both the class and the cause to errors.Is and errors.As.
func (e *Error) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Class}
	}
	return []error{e.Class, e.Err}
}

// ClassOf is the class of err, Internal when it has none, and empty for nil.
func ClassOf(err error) Class {
	var c Class
	switch {
	case err == nil:
		return ""
	case errors.As(err, &c):
		return c
	default:
		return Internal
	}
}
