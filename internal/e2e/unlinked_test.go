package e2e

import "testing"

// TestFilesDeletedUnderTheAgent empties the agent's directory while it runs. What
// was acknowledged before and after is there at the next start.
func TestFilesDeletedUnderTheAgent(t *testing.T) {
	t.Parallel()
	a := startAgent(t, "--sync-frequency", "5s")
	f := a.startFleet(t)
	a.removeFiles(t, database)
	a.removeFiles(t, backup)
	a.proveAlive(t)
	a.kill()
	a.start(t)
	f.check(t, a)
}
