// Package simulate holds the simulator: the agent's store, sources' sink,
// reconciler and observer on the runtime in memory, in a bubble of fake time,
// driven by plans that a seed gives. See web/docs/simulator.md.
//
// It is all tests, since a bubble needs one; scripts/simulate runs many seeds.
package simulate
