//go:build race

package simulate

// always is how many seeds every test run tries. Under the race detector a seed
// takes some ten times as long.
const always = 30

// replays is how many it tries twice.
const replays = 5
