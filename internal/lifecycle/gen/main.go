// Gen writes the state diagrams of both machines into the folder it is given.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"podstead.io/podstead/internal/lifecycle"
	"podstead.io/podstead/internal/pod"
)

func main() {
	for _, m := range []pod.Machine{pod.MachinePod, pod.MachineContainer} {
		name := filepath.Join(os.Args[1], "states-"+string(m)+".mmd")
		if err := os.WriteFile(name, []byte(lifecycle.Diagram(m)), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
