// Generate writes schema.sql and dictionary.md into the directory given.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"podstead.io/podstead/internal/store/dictionary"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "generate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) != 1 {
		return fmt.Errorf("usage: generate DIRECTORY")
	}
	tables, err := dictionary.Migrated(ctx)
	if err != nil {
		return err
	}
	for name, text := range map[string]string{"schema.sql": dictionary.SQL(tables), "dictionary.md": dictionary.Markdown(tables)} {
		if err := os.WriteFile(filepath.Join(args[0], name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
