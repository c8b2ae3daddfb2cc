package store

import (
	"errors"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"

	"podstead.io/podstead/internal/pod"
)

// Options say where the store is and what it needs of other packages.
type Options struct {
	// Path is the database file; its directory must exist. Beside it SQLite
	// keeps -wal and -shm, and the store a .lock.
	Path string
	// BackupPath is the backup of desired state; empty: none is kept.
	BackupPath string
	// NodeID is the identity that a new database gives to this node. It should
	// follow from the machine, so that losing database and backup does not lose
	// what runs. Empty: a random one. An existing database keeps its own.
	NodeID string
	// BootID is the kernel's, for telling restarts of the machine.
	BootID string

	// Restore turns a stored canonical manifest into the pod as this binary
	// defaults it.
	Restore func(manifest []byte) (*corev1.Pod, error)
	// ContainerEdge gives the transitions that follow from a change of an
	// observed container: old nil, seen for the first time; updated nil, removed
	// after its end was recorded. A container that vanished is RunGone in
	// updated. last is the latest on record of any attempt, zero if there is none.
	// It must be pure. The store fills in which pod and container.
	ContainerEdge func(last pod.Transition, old, updated *pod.Container) []pod.Transition
	// NormalizeImage makes an image name comparable with those that Podman
	// lists; nil: names are compared as they are.
	NormalizeImage func(name string) string

	// Driver names the database/sql driver, which must be modernc's or wrap it;
	// empty: modernc's own.
	Driver string

	Now    func() time.Time // nil: time.Now
	Logger *slog.Logger     // nil: none
	Limits Limits
}

func (o Options) withDefaults() (Options, error) {
	if o.Path == "" || o.Restore == nil || o.ContainerEdge == nil {
		return o, errors.New("store: Path, Restore and ContainerEdge are required")
	}
	if o.NormalizeImage == nil {
		o.NormalizeImage = func(name string) string { return name }
	}
	if o.Driver == "" {
		o.Driver = "sqlite"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Limits = o.Limits.withDefaults()
	return o, nil
}

// OpenReport says what Open had to do.
type OpenReport struct {
	// Created says that there was no database.
	Created bool
	// Corrupt is where a damaged database was moved to, Damage what is wrong
	// with it.
	Corrupt string
	Damage  string
	// Restored says that desired state came from the backup: so many pods.
	Restored bool
	Pods     int
	// Lost names objects of the backup that were damaged themselves.
	Lost []string
	// Migrated lists the schema versions that were applied to an existing file.
	Migrated []int64
}
