// Package store keeps everything the agent knows in one SQLite file: what the
// sources want, what the runtime has, and the history between the two.
//
// One connection writes, one transaction at a time, each begun IMMEDIATE: a
// deferred transaction that reads and then writes fails at once with
// BUSY_SNAPSHOT whatever the busy timeout. A small pool of read-only
// connections reads snapshots. Transactions that acknowledge desired state to
// someone are fsynced; observations and history may lose the last instants in a
// power cut, never consistency. A transaction that finds everything as it was
// writes nothing.
//
// Times are RFC 3339 text in UTC with six fractional digits in columns named
// _at, durations integer nanoseconds in columns named _ns. Every transaction has
// one fixed time.
//
// The package owns one goroutine per Store, from Open to Close: it carries
// commits over to the backup, and probes the disk while writing fails. In go
// what sources want, what was observed and what the reconciler decided; out come
// snapshots, and after each commit the UIDs of the pods to look at.
package store

//go:generate go run ./dictionary/generate ../../schema
