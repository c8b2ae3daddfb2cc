// Command fieldsdoc writes the page on supported fields to the file named.
package main

import (
	"fmt"
	"os"

	"podstead.io/podstead/internal/manifest"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: fieldsdoc FILE")
		os.Exit(2)
	}
	if err := os.WriteFile(os.Args[1], manifest.FieldsDoc(), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
