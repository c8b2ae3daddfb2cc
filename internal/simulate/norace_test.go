//go:build !race

package simulate

// always is how many seeds every test run tries.
const always = 200

// replays is how many it tries twice.
const replays = 40
