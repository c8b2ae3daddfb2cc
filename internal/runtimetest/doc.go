// Package runtimetest is a container runtime in memory, and the suite that says
// what a runtime has to do.
//
// Fake holds sandboxes, containers and images as Podman does, and fails as told:
// a FaultPlan names the calls to fail, to hang, to delay, to carry out and then
// report as failed, or to lie about. Conformance runs the clauses of the
// interfaces in internal/reconcile and internal/observe over any runtime; the
// fake has to pass it too, so that a test on the fake means something.
//
// A Fake reads no clock but time and waits on nothing but channels and timers:
// it works inside testing/synctest. It owns one timer a running process that is
// to end by itself, and Close ends them all.
package runtimetest
